//! The mix that loses least and fits: for every weight one type of a family, by measured errors.
//!
//! Each type of the family is tried on the whole model as [`compare`](Checkpoint::compare) does. What a weight loses is its noise
//! over its signal: the sum of squared differences by the sum of squares, so that a layer of small numbers counts as much
//! as one of large ones, and a small layer as much as a large one, since each passes its share of noise on to the next.
//!
//! Every weight begins with its smallest type. Then the step that saves most loss for each byte it costs is taken, of all the
//! steps there are, as long as the file fits; a step leads along the lower hull of the points (bytes, loss) of a weight, so
//! that no two steps together are better than the one taken. Up to the first step that does not fit, that is the best mix there
//! is for its own size; smaller steps then fill what room is left.

use std::collections::BTreeMap;

use super::options::ConvertOptions;
use super::stats::QuantizationError;
use super::target::ConvertTarget;
use super::{DirectoryOptions, MeasuredWeight};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::error::{Request, Result};
use crate::pipeline::Progress;

/// Families by name. Types that need an importance matrix are in none; a list of types may have them.
const FAMILIES: [(&str, &[&str]); 4] = [
    ("k-quants", &["q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "q8_0"]),
    ("compressed-tensors", &["w2a16", "w3a16", "w4a16", "w8a16"]),
    ("gptq", &["gptq-2bit", "gptq-3bit", "gptq-4bit", "gptq-8bit"]),
    ("mlx", &["mlx-2bit", "mlx-3bit", "mlx-4bit", "mlx-5bit", "mlx-6bit", "mlx-8bit"]),
];

/// Plans that are tried until one fits with its header.
const MOST_PLANS: usize = 8;

/// A mix that fits, and how to write it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fit {
    /// The type that most weights have; a conversion to it with [`options`](Self::options) writes the mix.
    pub target: ConvertTarget,
    /// What was asked for, with a rule for every weight of another type.
    pub options: ConvertOptions,
    /// Bytes of the weight files.
    pub bytes: u64,
    /// Every quantised weight with its type.
    pub weights: Vec<FittedWeight>,
}

/// What was decided for a weight.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FittedWeight {
    /// The type that was chosen; `None` where there was no choice, as it is the same with each.
    pub target: Option<ConvertTarget>,
    /// Bytes of its tensors.
    pub bytes: u64,
    /// Its error, under its name in the output.
    pub error: QuantizationError,
}

impl Fit {
    /// The families that have a name.
    pub fn families() -> impl Iterator<Item = &'static str> {
        FAMILIES.iter().map(|(name, _)| *name)
    }

    /// The targets of a family by its name, or of a list of them with commas in between.
    ///
    /// ```
    /// let targets = anamnesis::Fit::family("q4_k_m,q6_k,q8_0")?;
    /// assert_eq!(targets.len(), 3);
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` where one of them is no target, `Request` where one quantises nothing or no file can hold both it and the
    /// first.
    pub fn family(text: &str) -> Result<Vec<ConvertTarget>> {
        let lower = text.to_ascii_lowercase();
        let found = FAMILIES.iter().find(|(name, _)| *name == lower);
        let names: Vec<&str> =
            found.map_or_else(|| lower.split(',').map(str::trim).collect(), |(_, names)| names.to_vec());
        let targets = names.into_iter().map(ConvertTarget::parse).collect::<Result<Vec<_>>>()?;
        check_family(&targets)?;
        Ok(targets)
    }
}

/// Refuses types that no file can hold together.
fn check_family(targets: &[ConvertTarget]) -> Result<()> {
    let refuse = |what: String, why: String| Err(Request::Contradiction { what, why }.into());
    let Some((first, others)) = targets.split_first() else {
        return refuse("a mix of no types".to_owned(), "there is nothing to choose from".to_owned());
    };
    let Some(usual) = first.encoding() else {
        return refuse(format!("a mix with {first}"), "it quantises nothing".to_owned());
    };
    for other in others.iter().filter(|other| *other != first) {
        if !usual.quantiser.mixes_with(other.name()) {
            let why = format!("what tells loaders of {first} cannot tell of {other}");
            return refuse(format!("a mix of {first} and {other}"), why);
        }
    }
    Ok(())
}

impl Checkpoint {
    /// Finds the mix of these targets that loses least in at most so many bytes of weight files. Nothing is written.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ConvertOptions, DirectoryOptions, Fit, ParseLimits};
    /// let checkpoint = Checkpoint::open("model-f16.gguf", &ParseLimits::default())?;
    /// let family = Fit::family("k-quants")?;
    /// let cut = DirectoryOptions::new();
    /// let fit = checkpoint.fit(12_000_000_000, &family, &ConvertOptions::new(), &cut, |_| {})?;
    /// checkpoint.plan_convert(fit.target, &fit.options)?.write("model-12gb.gguf", |_| {})?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Request` where even the smallest mix does not fit, with the bytes it takes, or where no file can hold these targets
    /// together; as a conversion where the model cannot become one of them.
    pub fn fit(
        &self,
        most_bytes: u64,
        targets: &[ConvertTarget],
        options: &ConvertOptions,
        cut: &DirectoryOptions,
        watch: impl FnMut(&Progress),
    ) -> Result<Fit> {
        check_family(targets)?;
        let mut options = options.clone();
        // One type for all, but where another is asked for: what the mixes of llama.cpp choose is decided here.
        options.quantise.blocks.pure |= targets.first().is_some_and(|first| first.format() == Format::Gguf);
        let mut ladders: BTreeMap<String, Ladder> = BTreeMap::new();
        for row in self.compare(targets, &options, cut, watch)? {
            for weight in row.outcome?.weights {
                ladders.entry(weight.error.name.clone()).or_default().rungs.push((row.target, weight));
            }
        }
        // What is the same in every trial is not to be decided.
        let (mut open, fixed): (Vec<_>, Vec<_>) = ladders.into_values().partition(Ladder::is_open);
        open.iter_mut().for_each(Ladder::straighten);
        let mut allowed = most_bytes;
        for _ in 0..MOST_PLANS {
            let (weights, is_smallest) = choose(&open, &fixed, allowed);
            let of_weights: u64 = weights.iter().map(|weight| weight.bytes).sum();
            let fit = self.mix(weights, targets, &options, cut)?;
            if fit.bytes <= most_bytes {
                return Ok(fit);
            }
            if is_smallest {
                return Err(Request::DoesNotFit { bytes: most_bytes, least: fit.bytes }.into());
            }
            // Headers, gaps between tensors, and tensors that are not quantised are known once they are laid out.
            let left = most_bytes.saturating_sub(fit.bytes.saturating_sub(of_weights));
            allowed = left.min(allowed.saturating_sub(1));
        }
        // Rules that change how much room the header takes, time and again: the smallest mix has the fewest.
        let (weights, _) = choose(&open, &fixed, 0);
        let fit = self.mix(weights, targets, &options, cut)?;
        match fit.bytes <= most_bytes {
            true => Ok(fit),
            false => Err(Request::DoesNotFit { bytes: most_bytes, least: fit.bytes }.into()),
        }
    }

    /// The mix of these choices, planned to the byte.
    fn mix(
        &self,
        weights: Vec<FittedWeight>,
        targets: &[ConvertTarget],
        options: &ConvertOptions,
        cut: &DirectoryOptions,
    ) -> Result<Fit> {
        let count = |target: &ConvertTarget| weights.iter().filter(|weight| weight.target == Some(*target)).count();
        // Of equals the first, whatever their order among the targets.
        let usual = targets.iter().rev().max_by_key(|target| count(target)).or(targets.first());
        let Some(&target) = usual else { return Err(Request::NothingSelected.into()) };
        let mut options = options.clone();
        for weight in &weights {
            if let Some(other) = weight.target.filter(|other| *other != target) {
                options.rules.add_name(&weight.error.name, other)?;
            }
        }
        let bytes = self.trial(target, &options, cut)?.bytes;
        Ok(Fit { target, options, bytes, weights })
    }
}

/// The types of one weight, each with what it costs and loses.
#[derive(Debug, Default)]
struct Ladder {
    rungs: Vec<(ConvertTarget, MeasuredWeight)>,
}

impl Ladder {
    /// Whether the types differ in anything.
    fn is_open(&self) -> bool {
        let mut weights = self.rungs.iter().map(|(_, weight)| weight);
        let first = weights.next();
        weights.any(|weight| Some(weight) != first)
    }

    /// Leaves the lower hull, from the smallest on: what costs more and loses less, and each step worth less than the one before.
    fn straighten(&mut self) {
        self.rungs.sort_by(|(_, a), (_, b)| {
            (a.bytes, loss(a)).partial_cmp(&(b.bytes, loss(b))).unwrap_or(a.bytes.cmp(&b.bytes))
        });
        let mut hull: Vec<(ConvertTarget, MeasuredWeight)> = Vec::new();
        let mut rest = std::mem::take(&mut self.rungs).into_iter().collect::<Vec<_>>();
        while !rest.is_empty() {
            let next = match hull.last() {
                None => 0,
                Some((_, last)) => {
                    rest.retain(|(_, weight)| weight.bytes > last.bytes && loss(weight) < loss(last));
                    let worth = |&index: &usize| worth(last, &rest[index].1);
                    let best = (0..rest.len()).max_by(|a, b| worth(a).total_cmp(&worth(b)));
                    let Some(best) = best else { break };
                    best
                }
            };
            hull.push(rest.remove(next));
        }
        self.rungs = hull;
    }
}

/// Noise over signal.
fn loss(weight: &MeasuredWeight) -> f64 {
    10f64.powf(-weight.error.sqnr / 10.0).min(f64::MAX)
}

/// The loss saved for each byte.
fn worth(from: &MeasuredWeight, to: &MeasuredWeight) -> f64 {
    (loss(from) - loss(to)) / (to.bytes - from.bytes).max(1) as f64
}

/// Takes the steps that are worth most while they fit. Says whether none was taken.
fn choose(open: &[Ladder], fixed: &[Ladder], allowed: u64) -> (Vec<FittedWeight>, bool) {
    let mut steps: Vec<(f64, usize, usize)> = Vec::new();
    for (ladder, rungs) in open.iter().enumerate() {
        let pairs = rungs.rungs.windows(2).enumerate();
        steps.extend(pairs.map(|(step, pair)| (worth(&pair[0].1, &pair[1].1), ladder, step)));
    }
    // Of equals the first in the order of names, so that the same model always gets the same mix.
    steps.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let bytes_at = |ladder: usize, rung: usize| open[ladder].rungs[rung].1.bytes;
    let all = open.iter().chain(fixed);
    let mut total: u64 = all.filter_map(|ladder| ladder.rungs.first()).map(|(_, weight)| weight.bytes).sum();
    let mut at = vec![0usize; open.len()];
    for (_, ladder, step) in steps {
        let more = bytes_at(ladder, step + 1) - bytes_at(ladder, step);
        // A weight whose earlier step did not fit stays where it is.
        if at[ladder] == step && total + more <= allowed {
            at[ladder] = step + 1;
            total += more;
        }
    }
    let is_smallest = at.iter().all(|&rung| rung == 0);
    let weight =
        |target, weight: &MeasuredWeight| FittedWeight { target, bytes: weight.bytes, error: weight.error.clone() };
    let chosen = open.iter().zip(at).map(|(ladder, rung)| &ladder.rungs[rung]);
    let chosen = chosen.map(|(target, measured)| weight(Some(*target), measured));
    let unchosen = fixed.iter().filter_map(|ladder| ladder.rungs.first()).map(|(_, measured)| weight(None, measured));
    let mut weights: Vec<FittedWeight> = chosen.chain(unchosen).collect();
    weights.sort_by(|a, b| a.error.name.cmp(&b.error.name));
    (weights, is_smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(name: &str, rungs: &[(&str, u64, f64)]) -> Ladder {
        let rung = |&(target, bytes, sqnr): &(&str, u64, f64)| {
            let mut error = QuantizationError::none(name, 1);
            error.sqnr = sqnr;
            (ConvertTarget::parse(target).unwrap(), MeasuredWeight { bytes, error })
        };
        let mut ladder = Ladder { rungs: rungs.iter().map(rung).collect() };
        ladder.straighten();
        ladder
    }

    fn chosen(ladders: &[Ladder], bytes: u64) -> Vec<&'static str> {
        choose(ladders, &[], bytes).0.iter().filter_map(|weight| Some(weight.target?.name())).collect()
    }

    #[test]
    fn what_costs_more_and_loses_as_much_is_never_taken() {
        let ladder = ladder("a", &[("q8_0", 8, 40.0), ("q4_0", 4, 20.0), ("q4_1", 5, 19.0), ("q5_0", 5, 20.2)]);
        let left: Vec<_> = ladder.rungs.iter().map(|(target, _)| target.name()).collect();
        assert_eq!(left, ["q4_0", "q8_0"]);
    }

    #[test]
    fn bytes_go_where_they_save_most() {
        let large = ladder("large", &[("q4_0", 400, 20.0), ("q8_0", 800, 40.0)]);
        let small = ladder("small", &[("q4_0", 40, 20.0), ("q8_0", 80, 40.0)]);
        let ladders = [large, small];
        assert_eq!(chosen(&ladders, 440), ["q4_0", "q4_0"]);
        assert_eq!(chosen(&ladders, 480), ["q4_0", "q8_0"]);
        assert_eq!(chosen(&ladders, 840), ["q4_0", "q8_0"]);
        assert_eq!(chosen(&ladders, 880), ["q8_0", "q8_0"]);
    }

    #[test]
    fn a_mix_is_the_best_of_its_size() {
        let mut state = 7u64;
        println!("seed {state}");
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..50 {
            let names = ["a", "b", "c", "d"];
            let ladders = names.map(|name| {
                let rungs =
                    ["q4_0", "q5_0", "q6_k", "q8_0"].map(|target| (target, 10 + random(90), 5.0 + random(40) as f64));
                ladder(name, &rungs)
            });
            let lost = |weights: &[FittedWeight]| -> f64 {
                weights.iter().map(|weight| 10f64.powf(-weight.error.sqnr / 10.0)).sum()
            };
            let (mix, _) = choose(&ladders, &[], 120 + random(200));
            let (bytes, loss_of_mix) = (mix.iter().map(|weight| weight.bytes).sum::<u64>(), lost(&mix));
            let mut best = f64::INFINITY;
            let counts = ladders.each_ref().map(|ladder| ladder.rungs.len());
            for index in 0..counts.iter().product::<usize>() {
                let mut rest = index;
                let (mut total, mut loss_of_all) = (0, 0.0);
                for (ladder, count) in ladders.iter().zip(counts) {
                    let (_, weight) = &ladder.rungs[rest % count];
                    rest /= count;
                    total += weight.bytes;
                    loss_of_all += loss(weight);
                }
                if total <= bytes {
                    best = best.min(loss_of_all);
                }
            }
            // A step that did not fit may leave room for a later one, which is worth less.
            assert!(loss_of_mix <= best * 1.5 + 1e-12, "{loss_of_mix} is more than {best}");
        }
    }

    #[test]
    fn families_are_known_by_name_and_as_lists_of_what_goes_together() {
        for name in Fit::families() {
            assert!(Fit::family(name).unwrap().len() > 2, "{name}");
        }
        assert_eq!(Fit::family("Q4_K_M, q8_0").unwrap().len(), 2);
        for (text, why) in [("q4_k_m,w4a16", "cannot tell of w4a16"), ("gguf", "quantises nothing"), ("q4", "targets")]
        {
            let error = Fit::family(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
