//! How many parameters a model has, and how that is written in its name.

/// Parameters of a GGUF file: all of them, those every token meets, and those of one expert.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) total: u64,
    shared: u64,
    of_one_expert: u64,
    experts: u64,
    expert_tensors: u64,
    is_of_adapter: bool,
    /// Whether factors of adapters are among the tensors of a model, which no label counts.
    has_factors: bool,
}

/// The ends of the names of an adapter's factors.
const FACTORS: [&str; 2] = [".lora_a", ".lora_b"];

/// The number of parameters that a name is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TotalSize {
    /// Of a model.
    Exact(u64),
    /// Of the weights that an adapter changes: at most those of the model.
    OfAdapter(u64),
}

impl TotalSize {
    /// The number of parameters of a model; 0 for an adapter.
    pub(super) const fn exact(self) -> u64 {
        match self {
            Self::Exact(total) => total,
            Self::OfAdapter(_) => 0,
        }
    }

    pub(super) const fn is_of_adapter(self) -> bool {
        matches!(self, Self::OfAdapter(_))
    }

    /// Whether a size in a name is too far from this one to be that of the model.
    pub(super) fn is_far(self, label: f64) -> bool {
        match self {
            Self::Exact(0) => false,
            Self::Exact(total) => (label - total as f64).abs() > (u128::from(total) * 7 / 8) as f64,
            Self::OfAdapter(total) => label < (total / 8) as f64,
        }
    }
}

impl Counts {
    /// The number of parameters, for the interpretation of names.
    pub(super) const fn size(&self) -> TotalSize {
        match self.is_of_adapter {
            true => TotalSize::OfAdapter(self.total),
            false if self.has_factors => TotalSize::Exact(0),
            false => TotalSize::Exact(self.total),
        }
    }

    /// Counts the product of a pair of an adapter, by the name and the shape of the weight it is added to.
    pub(crate) fn add_product(&mut self, name: &str, shape: &[usize]) {
        self.is_of_adapter = true;
        self.add(name, shape);
    }

    /// Counts a tensor by its GGUF name and its shape, outermost dimension first.
    pub(crate) fn add(&mut self, name: &str, shape: &[usize]) {
        let size = shape.iter().fold(1_u64, |size, &length| size.saturating_mul(length as u64));
        self.total = self.total.saturating_add(size);
        self.has_factors |= FACTORS.iter().any(|ending| name.ends_with(ending));
        let outside = if name.contains(".bias") { 2 } else { 3 };
        let experts = shape.len().checked_sub(outside).and_then(|place| shape.get(place)).copied().unwrap_or(0) as u64;
        match name.contains("_exps.") && shape.len() >= 3 {
            true => {
                self.of_one_expert = self.of_one_expert.saturating_add(size.checked_div(experts).unwrap_or(0));
                self.experts = self.experts.saturating_add(experts);
                self.expert_tensors += 1;
            }
            false => self.shared = self.shared.saturating_add(size),
        }
    }

    /// "7B", or "8x1.2B" where there are experts: the parameters a token meets, with one expert.
    pub(crate) fn label(&self) -> String {
        match self.experts.checked_div(self.expert_tensors).unwrap_or(0) {
            0 => rounded(self.total),
            experts => format!("{experts}x{}", rounded(self.shared.saturating_add(self.of_one_expert))),
        }
    }
}

/// A count with two digits at least, and a letter for its thousands.
fn rounded(count: u64) -> String {
    let number = count as f64;
    let (scaled, letter) = match number {
        _ if number > 1e12 => (number * 1e-12, 'T'),
        _ if number > 1e9 => (number * 1e-9, 'B'),
        _ if number > 1e6 => (number * 1e-6, 'M'),
        _ => (number * 1e-3, 'K'),
    };
    let digits = format!("{}", scaled.round_ties_even());
    let places = 2_usize.saturating_sub(digits.trim_start_matches('0').len());
    format!("{scaled:.places$}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_digits_and_a_letter() {
        for (count, label) in [
            (0, "0.00K"),
            (499, "0.50K"),
            (1_000, "1.0K"),
            (21_760, "22K"),
            (999_999, "1000K"),
            (494_032_768, "494M"),
            (6_738_415_616, "6.7B"),
            (1_026_000_000_000, "1.0T"),
        ] {
            assert_eq!(rounded(count), label, "{count}");
        }
    }

    #[test]
    fn one_expert_and_what_is_shared_make_the_label() {
        let mut counts = Counts::default();
        counts.add("token_embd.weight", &[1000, 1000]);
        counts.add("blk.0.ffn_up_exps.weight", &[8, 100, 1000]);
        counts.add("blk.0.ffn_up_exps.bias", &[8, 100]);
        assert_eq!(counts.label(), "8x1.1M");
        assert_eq!(counts.total, 1_800_800);
    }
}
