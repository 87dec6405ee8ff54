#include "runner/config/big_integer.h"

#include <vector>

namespace runner {
namespace {

/// A number of any size. Limbs hold nine digits each, the lowest first.
class BigInteger {
 public:
  /// Multiplies, then adds; both are below 2^32.
  void apply(std::uint64_t factor, std::uint64_t addend) {
    std::uint64_t carry = addend;
    for (std::uint64_t& limb : limbs_) {
      carry += limb * factor;
      limb = carry % kLimb;
      carry /= kLimb;
    }
    for (; carry > 0; carry /= kLimb) limbs_.push_back(carry % kLimb);
  }

  std::string digits() const {
    if (limbs_.empty()) return "0";
    std::string result = std::to_string(limbs_.back());
    for (std::size_t i = limbs_.size() - 1; i-- > 0;) {
      const std::string limb = std::to_string(limbs_[i]);
      result += std::string(9 - limb.size(), '0') + limb;
    }
    return result;
  }

 private:
  static constexpr std::uint64_t kLimb = 1'000'000'000;
  std::vector<std::uint64_t> limbs_;
};

}  // namespace

std::string decimal_digits(std::span<const NumberStep> steps) {
  constexpr std::uint64_t kMaxFactor = 1u << 24;  // several steps are taken at once
  BigInteger number;
  std::uint64_t factor = 1, addend = 0;
  for (const NumberStep& step : steps) {
    factor *= step.factor;
    addend = addend * step.factor + step.addend;
    if (factor < kMaxFactor) continue;
    number.apply(factor, addend);
    factor = 1;
    addend = 0;
  }
  number.apply(factor, addend);
  return number.digits();
}

}  // namespace runner
