//! Logarithms of factorials.

/// Logarithms of `0!` to `most!`, each exact to about ten units of the last place. The sums compensate the error of each
/// addition.
pub(super) struct LnFactorials(Vec<f64>);

impl LnFactorials {
    pub(super) fn up_to(most: u32) -> Self {
        let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
        let mut all = vec![0.0];
        for number in 1..=most {
            // Kahan's summation.
            let term = f64::from(number).ln() - lost;
            let next = sum + term;
            lost = (next - sum) - term;
            sum = next;
            all.push(sum);
        }
        Self(all)
    }

    /// Returns the logarithm of the number of ways to choose `few` of `many`.
    pub(super) fn choose(&self, many: u32, few: u32) -> f64 {
        self.0[many as usize] - self.0[few as usize] - self.0[(many - few) as usize]
    }
}
