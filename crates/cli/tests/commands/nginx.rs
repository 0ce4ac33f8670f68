//! Models of nginx: ranges, redirects, TLS by a local authority, a slow connection. Without nginx this is not tested,
//! unless `AMN_SERVERS=1` requires it, as `cargo xtask remote` does.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::folder::{Folder, Run};
use crate::samples;

/// A running nginx, which ends with this value.
struct Nginx {
    process: Child,
    plain: u16,
    secure: u16,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master process ends its workers on SIGTERM only.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    assert!(found || std::env::var_os("AMN_SERVERS").is_none(), "{program} is not installed");
    found
}

fn openssl(folder: &Path, line: &str) {
    let run = Command::new("openssl").args(line.split(' ')).current_dir(folder).output().unwrap();
    assert!(run.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&run.stderr));
}

/// An authority, and a certificate of it for this machine.
fn certificates(folder: &Path) {
    let names = "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n";
    fs::write(folder.join("names"), names).unwrap();
    let subject = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1";
    openssl(folder, &format!("req -x509 {subject} -keyout ca.key -out ca.pem -days 2 -subj /CN=Authority"));
    openssl(folder, &format!("req {subject} -keyout server.key -out server.csr -subj /CN=localhost"));
    openssl(
        folder,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem",
    );
}

fn start(models: &Path, folder: &Path) -> Nginx {
    let (plain, secure, other) = (free_port(), free_port(), free_port());
    let (root, work) = (models.display(), folder.display());
    let files = format!("root {root}; location /moved/ {{ return 302 http://127.0.0.1:{other}/$request_uri; }}");
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {work}/{kind};\n"))
        .concat();
    let configuration = format!(
        "daemon off; pid {work}/pid; error_log {work}/error.log;\nevents {{ worker_connections 512; }}\nhttp {{
         {temporary}
         log_format counted '$request_uri $status $body_bytes_sent $http_authorization';
         access_log {work}/access.log counted;
         server {{ listen 127.0.0.1:{plain}; {files} location /slow/ {{ alias {root}/; limit_rate 3m; }} }}
         server {{ listen 127.0.0.1:{other}; rewrite ^//?moved/(.*)$ /$1 break; root {root}; }}
         server {{ listen 127.0.0.1:{secure} ssl; ssl_certificate {work}/server.pem; ssl_certificate_key {work}/server.key;
                  {files} }}
         }}"
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, configuration).unwrap();
    let process = Command::new("nginx").arg("-c").arg(&path).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", secure)).is_err() {
        let log = || fs::read_to_string(folder.join("error.log")).unwrap_or_default();
        assert!(started.elapsed() < Duration::from_secs(10), "nginx does not start: {}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
    Nginx { process, plain, secure }
}

/// Requests and bytes of all answers in the log of nginx for paths that end like this.
fn counted(folder: &Path, end: &str) -> (usize, u64) {
    let log = fs::read_to_string(folder.join("access.log")).unwrap();
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
    let found = lines.iter().filter(|line| line[0].ends_with(end));
    (found.clone().count(), found.map(|line| line[2].parse::<u64>().unwrap()).sum())
}

#[test]
fn models_of_nginx_are_read_by_ranges_redirects_and_tls() {
    if !is_installed("nginx") || !is_installed("openssl") {
        return;
    }
    let (models, work, outside) = (samples::folder(), Folder::empty(), Folder::empty());
    models.add_sparse("large.safetensors", "U8", &["a", "b", "c"], 3_000_000);
    certificates(work.root());
    let nginx = start(models.root(), work.root());
    let amn = |line: &str, authority: bool| {
        let mut command = outside.command(line);
        command.env_remove("SSL_CERT_FILE");
        if authority {
            command.env("SSL_CERT_FILE", work.path("ca.pem"));
        }
        Run::of(command.output().unwrap())
    };
    let (plain, secure) = (format!("http://127.0.0.1:{}", nginx.plain), format!("https://127.0.0.1:{}", nginx.secure));
    for name in ["Tiny-3.1-FP8/model.safetensors.index.json", "large.safetensors", "checkpoint.pth", "model.gguf"] {
        let local = models.amn(&format!("hash {name}")).ok();
        for place in [&plain, &format!("{plain}/moved"), &format!("{plain}/slow"), &secure] {
            let remote = amn(&format!("hash {place}/{name}"), place.starts_with("https")).ok();
            assert_eq!(local, remote, "{place}/{name}");
        }
    }
    let refused = amn(&format!("inspect {secure}/model.gguf"), false).failed();
    assert!(refused.contains("certificate") || refused.contains("Certificate"), "{refused}");
    let before = counted(work.root(), "/large.safetensors");
    amn(&format!("convert {plain}/large.safetensors --to npz -o copy.npz"), false).ok();
    let after = counted(work.root(), "/large.safetensors");
    let (requests, bytes) = (after.0 - before.0, after.1 - before.1);
    let size = fs::metadata(models.path("large.safetensors")).unwrap().len();
    assert!(bytes <= size * 102 / 100 && requests <= 8, "{requests} requests, {bytes} bytes of {size}");
}
