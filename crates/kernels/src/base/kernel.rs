//! The macro that compiles one generic body for every CPU level.
//!
//! The body is an `#[inline(always)]` function, generic over [`Simd`](crate::base::simd::Simd), that takes the token of
//! the level and then its slices as separate arguments: with a closure or a struct of slices the compiler no longer
//! knows that the slices do not overlap, and loses most of the speed. The compiled versions are functions named `v3`
//! and `v4`, and `neon` for the portable level of AArch64, by which the assembly check finds them.

/// Defines `pub fn name(level, arguments…) -> usize` around a generic body, which returns how many entries of its
/// output it wrote.
///
/// `pub fn name(arguments…) -> O in out = body` has the output type `O` as its last generic and the slice `out` as its last
/// argument.
macro_rules! kernel {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident $(<$($generic:ident: $bound:path),+>)? ($($argument:ident: $type:ty),+ $(,)?)
        -> $output:ident in $out:ident = $body:ident
    ) => {
        kernel! {
            $(#[$attribute])*
            $visibility fn $name<$($($generic: $bound,)+)? $output: $crate::base::output::Output>(
                $($argument: $type,)+ $out: &mut [u8],
            ) = $body
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident $(<$($generic:ident: $bound:path),+>)? ($($argument:ident: $type:ty),+ $(,)?) = $body:ident
    ) => {
        $(#[$attribute])*
        #[must_use = "output past the returned count keeps its old contents"]
        $visibility fn $name $(<$($generic: $bound),+>)? (
            level: $crate::base::level::Level,
            $($argument: $type),+
        ) -> usize {
            #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
            #[target_feature(enable = "avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe,popcnt")]
            fn v3 $(<$($generic: $bound),+>)? (token: $crate::base::simd::V3, $($argument: $type),+) -> usize {
                $body::<_ $($(, $generic)+)?>(token, $($argument),+)
            }
            #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
            #[target_feature(enable = "avx,avx2,bmi1,bmi2,f16c,fma,lzcnt,movbe,popcnt")]
            #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
            fn v4 $(<$($generic: $bound),+>)? (token: $crate::base::simd::V4, $($argument: $type),+) -> usize {
                $body::<_ $($(, $generic)+)?>(token, $($argument),+)
            }
            #[cfg(target_arch = "aarch64")]
            #[inline(never)]
            fn neon $(<$($generic: $bound),+>)? (token: $crate::base::simd::Portable, $($argument: $type),+) -> usize {
                $body::<_ $($(, $generic)+)?>(token, $($argument),+)
            }
            match level.0 {
                #[cfg(target_arch = "aarch64")]
                $crate::base::level::Kind::Portable(token) => neon $(::<$($generic),+>)? (token, $($argument),+),
                #[cfg(not(target_arch = "aarch64"))]
                $crate::base::level::Kind::Portable(token) => $body::<_ $($(, $generic)+)?>(token, $($argument),+),
                #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
                $crate::base::level::Kind::V3(token) => {
                    // SAFETY: a V3 token exists only after the CPU reported every feature enabled above.
                    unsafe { v3 $(::<$($generic),+>)? (token, $($argument),+) }
                }
                #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
                $crate::base::level::Kind::V4(token) => {
                    // SAFETY: a V4 token exists only after the CPU reported every feature enabled above.
                    unsafe { v4 $(::<$($generic),+>)? (token, $($argument),+) }
                }
            }
        }
    };
}
