#!/usr/bin/env bash
# Starts a single-node Slurm cluster on this machine, converts a checkpoint, kills a worker during the run, and verifies
# the result.
# Needs Debian's packages slurm-wlm and munge, and root: try_slurm.sh [MEGABYTES_PER_SHARD]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export AMN=${AMN:-$(command -v amn || echo "$here/../../target/release/amn")}
work=$(mktemp -d)
chmod 755 "$work"
host=$(hostname -s)
stop() {
    for name in slurmd slurmctld munged; do
        [ -f "$work/$name.pid" ] || continue
        pid=$(cat "$work/$name.pid")
        # The daemons save their state on exit, so wait for them.
        kill "$pid" 2>/dev/null && while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    done
    rm -rf "$work"
}
trap stop EXIT

# A private munge key authenticates the daemons to each other.
mkdir -m 755 "$work/munge"
head -c 128 /dev/urandom > "$work/munge.key"
chmod 400 "$work/munge.key"
munged --force --key-file="$work/munge.key" --socket="$work/munge/socket" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/munge.seed"
cat > "$work/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmctldPort=17817
SlurmdPort=17818
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
MinJobAge=300
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
mkdir "$work/state" "$work/spool"
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF"
for _ in $(seq 30); do sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 1; done
sinfo

"$here/make_checkpoint.py" "$work/model" "${1:-200}"
cd "$work"
job=$(sbatch --parsable --array=1-8 "$here/remember.sbatch" "$work/model" -o "$work/out" --shard-size 100MB)
# Kill the first worker that appears.
until victim=$(pgrep -f "remember $work/model" | head -n 1) && [ -n "$victim" ]; do sleep 0.05; done
sleep 0.1
kill -9 "$victim" && echo "killed worker $victim"
while squeue -h -j "$job" | grep -q .; do squeue -h -j "$job" -o '%i %T' | tr '\n' ';'; echo; sleep 5; done
grep -l Killed remember-*.log || true
"$AMN" verify "$work/out"
"$AMN" remember "$work/model" -o "$work/direct" --shard-size 100MB --quiet
for file in "$work"/direct/*; do cmp "$file" "$work/out/$(basename "$file")"; done
echo "the files are identical to those written without a cluster"
