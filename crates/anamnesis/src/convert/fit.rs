//! Finding the mix of types with the least error for a given file size: each weight gets one type of a family, chosen
//! by measured errors.
//!
//! Every type of the family is measured on the whole model by [`compare`](Checkpoint::compare). The loss of a weight is
//! its noise-to-signal ratio, the sum of squared differences divided by the sum of squares. Being relative, it gives
//! equal weight to layers of small and large values, and to small and large layers.
//!
//! Every weight starts with its smallest type. A greedy search then repeatedly takes the step with the largest loss
//! reduction per byte over all weights, as long as the file fits. The steps of a weight follow the lower convex hull of
//! its points (bytes, loss), so that no pair of steps is better than the first of them. Up to the first step that does
//! not fit, the result is the optimal mix for its size; later, smaller steps fill the remaining bytes.

use std::collections::BTreeMap;

use super::options::ConvertOptions;
use super::stats::QuantizationError;
use super::target::ConvertTarget;
use super::{DirectoryOptions, MeasuredWeight};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::error::{Request, Result};
use crate::pipeline::Progress;

/// Families of types by name. Types that need an importance matrix are in no family, but can be listed explicitly.
const FAMILIES: [(&str, &[&str]); 4] = [
    ("k-quants", &["q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "q8_0"]),
    ("compressed-tensors", &["w2a16", "w3a16", "w4a16", "w8a16"]),
    ("gptq", &["gptq-2bit", "gptq-3bit", "gptq-4bit", "gptq-8bit"]),
    ("mlx", &["mlx-2bit", "mlx-3bit", "mlx-4bit", "mlx-5bit", "mlx-6bit", "mlx-8bit"]),
];

/// Maximum number of attempts to find a mix that fits with its header.
const MAX_ATTEMPTS: usize = 8;

/// A mix that fits, and the options that write it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fit {
    /// The most frequent type; a conversion to it with [`options`](Self::options) writes the mix.
    pub target: ConvertTarget,
    /// The caller's options, with one rule for every weight of another type.
    pub options: ConvertOptions,
    /// Bytes of the weight files.
    pub bytes: u64,
    /// Every quantised weight with its type.
    pub weights: Vec<FittedWeight>,
}

/// The type, size and error of a weight in the mix.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FittedWeight {
    /// The chosen type; `None` if all types of the family give the same result.
    pub target: Option<ConvertTarget>,
    /// Size of its output tensors in bytes.
    pub bytes: u64,
    /// Its quantisation error, under its name in the output.
    pub error: QuantizationError,
}

impl Fit {
    /// The names of the families.
    pub fn families() -> impl Iterator<Item = &'static str> {
        FAMILIES.iter().map(|(name, _)| *name)
    }

    /// The targets of a family, given by its name or as a comma-separated list of targets.
    ///
    /// ```
    /// let targets = anamnesis::Fit::family("q4_k_m,q6_k,q8_0")?;
    /// assert_eq!(targets.len(), 3);
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if one of them is not a target, `Request` if one does not quantise or cannot be
    /// mixed with the first.
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

/// Refuses types that cannot be mixed in one output.
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
            let why = format!("loaders of {first} do not support {other} in the same model");
            return refuse(format!("a mix of {first} and {other}"), why);
        }
    }
    Ok(())
}

impl Checkpoint {
    /// Finds the mix of these targets with the least error whose weight files have at most `most_bytes`.
    /// Nothing is written.
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
    /// `Request` if even the smallest mix does not fit, with its size, or if these targets cannot be mixed; errors of a
    /// conversion if the model cannot be converted to one of them.
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
        // Without rules, every weight shall get the same type: the mixes of llama.cpp would choose types by themselves.
        options.quantise.blocks.pure |= targets.first().is_some_and(|first| first.format() == Format::Gguf);
        let mut all_candidates: BTreeMap<String, Candidates> = BTreeMap::new();
        for row in self.compare(targets, &options, cut, watch)? {
            for weight in row.outcome?.weights {
                all_candidates.entry(weight.error.name.clone()).or_default().points.push((row.target, weight));
            }
        }
        // Weights with the same result for every type are fixed.
        let (mut open, fixed): (Vec<_>, Vec<_>) = all_candidates.into_values().partition(Candidates::differs);
        open.iter_mut().for_each(Candidates::reduce_to_hull);
        let mut allowed = most_bytes;
        for _ in 0..MAX_ATTEMPTS {
            let (weights, is_smallest) = choose(&open, &fixed, allowed);
            let weight_bytes: u64 = weights.iter().map(|weight| weight.bytes).sum();
            let fit = self.mix(weights, targets, &options, cut)?;
            if fit.bytes <= most_bytes {
                return Ok(fit);
            }
            if is_smallest {
                return Err(Request::DoesNotFit { bytes: most_bytes, least: fit.bytes }.into());
            }
            // The bytes of headers, padding and unquantised tensors are known once the file is laid out.
            let left = most_bytes.saturating_sub(fit.bytes.saturating_sub(weight_bytes));
            allowed = left.min(allowed.saturating_sub(1));
        }
        // The size of the header varies with the number of rules and the search did not converge: fall back to the
        // smallest mix, which has the fewest rules.
        let (weights, _) = choose(&open, &fixed, 0);
        let fit = self.mix(weights, targets, &options, cut)?;
        match fit.bytes <= most_bytes {
            true => Ok(fit),
            false => Err(Request::DoesNotFit { bytes: most_bytes, least: fit.bytes }.into()),
        }
    }

    /// Plans the mix of these choices, to learn its exact size.
    fn mix(
        &self,
        weights: Vec<FittedWeight>,
        targets: &[ConvertTarget],
        options: &ConvertOptions,
        cut: &DirectoryOptions,
    ) -> Result<Fit> {
        let count = |target: &ConvertTarget| weights.iter().filter(|weight| weight.target == Some(*target)).count();
        // Ties go to the first target, regardless of the order of targets.
        let most_frequent = targets.iter().rev().max_by_key(|target| count(target)).or(targets.first());
        let Some(&target) = most_frequent else { return Err(Request::NothingSelected.into()) };
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

/// The candidate types of one weight, each with its size and error.
#[derive(Debug, Default)]
struct Candidates {
    points: Vec<(ConvertTarget, MeasuredWeight)>,
}

impl Candidates {
    /// Whether the results of the types differ.
    fn differs(&self) -> bool {
        let mut weights = self.points.iter().map(|(_, weight)| weight);
        let first = weights.next();
        weights.any(|weight| Some(weight) != first)
    }

    /// Reduces the candidates to the lower convex hull, in ascending order of size: each has less loss than the one
    /// before, and a smaller loss reduction per byte.
    fn reduce_to_hull(&mut self) {
        self.points.sort_by(|(_, a), (_, b)| {
            (a.bytes, loss(a)).partial_cmp(&(b.bytes, loss(b))).unwrap_or(a.bytes.cmp(&b.bytes))
        });
        let mut hull: Vec<(ConvertTarget, MeasuredWeight)> = Vec::new();
        let mut rest = std::mem::take(&mut self.points).into_iter().collect::<Vec<_>>();
        while !rest.is_empty() {
            let next = match hull.last() {
                None => 0,
                Some((_, last)) => {
                    rest.retain(|(_, weight)| weight.bytes > last.bytes && loss(weight) < loss(last));
                    let gain_per_byte = |&index: &usize| gain_per_byte(last, &rest[index].1);
                    let best = (0..rest.len()).max_by(|a, b| gain_per_byte(a).total_cmp(&gain_per_byte(b)));
                    let Some(best) = best else { break };
                    best
                }
            };
            hull.push(rest.remove(next));
        }
        self.points = hull;
    }
}

/// The noise-to-signal ratio.
fn loss(weight: &MeasuredWeight) -> f64 {
    10f64.powf(-weight.error.sqnr / 10.0).min(f64::MAX)
}

/// The loss reduction per additional byte.
fn gain_per_byte(from: &MeasuredWeight, to: &MeasuredWeight) -> f64 {
    (loss(from) - loss(to)) / (to.bytes - from.bytes).max(1) as f64
}

/// Takes the steps with the largest loss reduction per byte while they fit. The second result is true if
/// no step was taken.
fn choose(open: &[Candidates], fixed: &[Candidates], allowed: u64) -> (Vec<FittedWeight>, bool) {
    let mut steps: Vec<(f64, usize, usize)> = Vec::new();
    for (index, candidates) in open.iter().enumerate() {
        let pairs = candidates.points.windows(2).enumerate();
        steps.extend(pairs.map(|(step, pair)| (gain_per_byte(&pair[0].1, &pair[1].1), index, step)));
    }
    // Ties go to the first weight by name, so that the result is deterministic.
    steps.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let bytes_at = |index: usize, point: usize| open[index].points[point].1.bytes;
    let all = open.iter().chain(fixed);
    let mut total: u64 = all.filter_map(|candidates| candidates.points.first()).map(|(_, weight)| weight.bytes).sum();
    let mut at = vec![0usize; open.len()];
    for (_, index, step) in steps {
        let more = bytes_at(index, step + 1) - bytes_at(index, step);
        // A weight whose previous step did not fit takes no further step.
        if at[index] == step && total + more <= allowed {
            at[index] = step + 1;
            total += more;
        }
    }
    let is_smallest = at.iter().all(|&point| point == 0);
    let weight =
        |target, weight: &MeasuredWeight| FittedWeight { target, bytes: weight.bytes, error: weight.error.clone() };
    let chosen = open.iter().zip(at).map(|(candidates, point)| &candidates.points[point]);
    let chosen = chosen.map(|(target, measured)| weight(Some(*target), measured));
    let unchosen =
        fixed.iter().filter_map(|candidates| candidates.points.first()).map(|(_, measured)| weight(None, measured));
    let mut weights: Vec<FittedWeight> = chosen.chain(unchosen).collect();
    weights.sort_by(|a, b| a.error.name.cmp(&b.error.name));
    (weights, is_smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(name: &str, points: &[(&str, u64, f64)]) -> Candidates {
        let point = |&(target, bytes, sqnr): &(&str, u64, f64)| {
            let mut error = QuantizationError::none(name, 1);
            error.sqnr = sqnr;
            (ConvertTarget::parse(target).unwrap(), MeasuredWeight { bytes, error })
        };
        let mut candidates = Candidates { points: points.iter().map(point).collect() };
        candidates.reduce_to_hull();
        candidates
    }

    fn chosen(all_candidates: &[Candidates], bytes: u64) -> Vec<&'static str> {
        choose(all_candidates, &[], bytes).0.iter().filter_map(|weight| Some(weight.target?.name())).collect()
    }

    #[test]
    fn candidates_with_more_bytes_and_no_less_loss_are_dropped() {
        let candidates = reduced("a", &[("q8_0", 8, 40.0), ("q4_0", 4, 20.0), ("q4_1", 5, 19.0), ("q5_0", 5, 20.2)]);
        let left: Vec<_> = candidates.points.iter().map(|(target, _)| target.name()).collect();
        assert_eq!(left, ["q4_0", "q8_0"]);
    }

    #[test]
    fn bytes_go_where_they_save_most() {
        let large = reduced("large", &[("q4_0", 400, 20.0), ("q8_0", 800, 40.0)]);
        let small = reduced("small", &[("q4_0", 40, 20.0), ("q8_0", 80, 40.0)]);
        let all_candidates = [large, small];
        assert_eq!(chosen(&all_candidates, 440), ["q4_0", "q4_0"]);
        assert_eq!(chosen(&all_candidates, 480), ["q4_0", "q8_0"]);
        assert_eq!(chosen(&all_candidates, 840), ["q4_0", "q8_0"]);
        assert_eq!(chosen(&all_candidates, 880), ["q8_0", "q8_0"]);
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
            let all_candidates = names.map(|name| {
                let points =
                    ["q4_0", "q5_0", "q6_k", "q8_0"].map(|target| (target, 10 + random(90), 5.0 + random(40) as f64));
                reduced(name, &points)
            });
            let lost = |weights: &[FittedWeight]| -> f64 {
                weights.iter().map(|weight| 10f64.powf(-weight.error.sqnr / 10.0)).sum()
            };
            let (mix, _) = choose(&all_candidates, &[], 120 + random(200));
            let (bytes, loss_of_mix) = (mix.iter().map(|weight| weight.bytes).sum::<u64>(), lost(&mix));
            let mut best = f64::INFINITY;
            let counts = all_candidates.each_ref().map(|candidates| candidates.points.len());
            for index in 0..counts.iter().product::<usize>() {
                let mut rest = index;
                let (mut total, mut loss_of_all) = (0, 0.0);
                for (candidates, count) in all_candidates.iter().zip(counts) {
                    let (_, weight) = &candidates.points[rest % count];
                    rest /= count;
                    total += weight.bytes;
                    loss_of_all += loss(weight);
                }
                if total <= bytes {
                    best = best.min(loss_of_all);
                }
            }
            // A step that did not fit may leave room for a later one with a smaller reduction per byte.
            assert!(loss_of_mix <= best * 1.5 + 1e-12, "{loss_of_mix} is more than {best}");
        }
    }

    #[test]
    fn families_are_parsed_by_name_and_as_lists_of_mixable_targets() {
        for name in Fit::families() {
            assert!(Fit::family(name).unwrap().len() > 2, "{name}");
        }
        assert_eq!(Fit::family("Q4_K_M, q8_0").unwrap().len(), 2);
        for (text, why) in [("q4_k_m,w4a16", "do not support w4a16"), ("gguf", "quantises nothing"), ("q4", "targets")]
        {
            let error = Fit::family(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
