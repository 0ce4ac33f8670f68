//! What makes two coders the same: all that their bytes depend on.

use std::hash::{Hash, Hasher};

/// Tells what it is to a hasher. Whatever can be hashed has this; coders derive `Hash` over all of their settings.
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
