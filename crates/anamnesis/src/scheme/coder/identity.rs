//! The identity of a coder: all settings that its output depends on.

use std::hash::{Hash, Hasher};

/// An object-safe `Hash` that includes the type. It is implemented for every hashable type; coders derive `Hash` over
/// all their settings.
pub(crate) trait Identity {
    fn identify(&self, hasher: &mut dyn Hasher);
}

impl<T: Hash> Identity for T {
    fn identify(&self, mut hasher: &mut dyn Hasher) {
        // Coders of different schemes may have the same settings.
        std::any::type_name::<T>().hash(&mut hasher);
        self.hash(&mut hasher);
    }
}
