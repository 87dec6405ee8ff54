#include "stages/plan/block_choice.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace stages {
namespace {

/// The chain of blocks, each of which is kept or recomputed. "Extra" are the bytes that earlier blocks hold because
/// they are kept, beyond what they would hold if recomputed.
class Chain {
 public:
  Chain(const StepProfile& kept, const StepProfile& recomputed) : kept_(kept), recomputed_(recomputed) {
    assert(kept.blocks.size() == recomputed.blocks.size());
    std::int64_t all = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      all_extra_before_.push_back(all);
      extra_.push_back(std::max<std::int64_t>(kept.blocks[i].held - recomputed.blocks[i].held, 0));
      all += extra_.back();
    }
    all_extra_before_.push_back(all);
  }

  std::size_t size() const { return kept_.blocks.size(); }
  std::int64_t extra(std::size_t block) const { return extra_[block]; }
  const StepWork& forward(std::size_t block) const { return kept_.blocks[block].forward; }

  /// What is live at most in block `i`, and before it outside of all blocks, where the earlier ones hold `extra`.
  std::int64_t needed(std::size_t i, bool is_recomputed, std::int64_t extra) const {
    const std::int64_t peak =
        is_recomputed ? recomputed_.blocks[i].peak + extra : kept_.blocks[i].peak - all_extra_before_[i] + extra;
    return std::max(peak, outside(i, extra));
  }
  /// Likewise after the last block, and in other phases.
  std::int64_t needed_at_end(std::int64_t extra) const {
    return std::max({outside(size(), extra), kept_.elsewhere, recomputed_.elsewhere});
  }

 private:
  std::int64_t outside(std::size_t place, std::int64_t extra) const {
    return kept_.between[place] == 0 ? 0 : kept_.between[place] - all_extra_before_[place] + extra;
  }

  const StepProfile& kept_;
  const StepProfile& recomputed_;
  std::vector<std::int64_t> extra_;             // of each block
  std::vector<std::int64_t> all_extra_before_;  // each block, where all are kept
};

/// A choice for the first blocks.
struct Recomputation {
  std::int64_t extra = 0;  // bytes that these hold
  double seconds = 0;      // that recomputing takes
  std::vector<bool> recomputed = {};
};

/// Leaves those of which no other holds as little and takes as little time.
void drop_worse(std::vector<Recomputation>& choices) {
  std::ranges::sort(choices, [](const Recomputation& a, const Recomputation& b) {
    return a.extra != b.extra ? a.extra < b.extra : a.seconds < b.seconds;
  });
  std::vector<Recomputation> best;
  for (Recomputation& choice : choices) {
    if (best.empty() || choice.seconds < best.back().seconds) best.push_back(std::move(choice));
  }
  choices = std::move(best);
}

}  // namespace

std::optional<std::vector<bool>> choose_blocks(const StepProfile& kept, const StepProfile& recomputed,
                                               std::int64_t bytes,
                                               const std::function<double(const StepWork&)>& seconds) {
  const Chain chain(kept, recomputed);
  // Choices that differ by less hold the same: it keeps their number small, and a tenth of a thousandth of what there
  // is decides nothing.
  const std::int64_t grain = std::max<std::int64_t>(bytes / 8192, 1);
  std::vector<Recomputation> choices(1);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const double cost = seconds(chain.forward(i));
    std::vector<Recomputation> longer;
    for (const bool is_recomputed : {false, true}) {
      for (const Recomputation& choice : choices) {
        if (chain.needed(i, is_recomputed, choice.extra) > bytes) continue;
        Recomputation next = choice;
        next.recomputed.push_back(is_recomputed);
        if (is_recomputed) next.seconds += cost;
        else next.extra += (chain.extra(i) + grain - 1) / grain * grain;
        longer.push_back(std::move(next));
      }
    }
    drop_worse(longer);
    choices = std::move(longer);
  }
  std::erase_if(choices, [&](const Recomputation& choice) { return chain.needed_at_end(choice.extra) > bytes; });
  const auto best = std::ranges::min_element(choices, {}, &Recomputation::seconds);
  if (best == choices.end()) return {};
  return best->recomputed;
}

std::int64_t bytes_needed(const StepProfile& kept, const StepProfile& recomputed, const std::vector<bool>& blocks) {
  const Chain chain(kept, recomputed);
  std::int64_t extra = 0, needed = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    needed = std::max(needed, chain.needed(i, blocks[i], extra));
    if (!blocks[i]) extra += chain.extra(i);
  }
  return std::max(needed, chain.needed_at_end(extra));
}

}  // namespace stages
