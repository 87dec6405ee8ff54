#include "stages/plan/step_profile.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "stages/plan/cpu_backend.h"
#include "stages/plan/gpu_backend.h"

namespace stages {
double predicted_seconds(const StepWork& work, const Backend& backend) {
  return backend.device == at::kCUDA ? seconds_on_gpu(work) : seconds_on_cpu(work, backend.threads);
}

std::string_view time_model_version() { return "time-2"; }

namespace {

/// Computes a profile in one pass over the events of a step.
class ProfileWalk {
 public:
  ProfileWalk(const std::vector<TracedStorage>& storages, const std::vector<std::string>& blocks)
      : storages_(storages), paths_(blocks) {
    for (const TracedStorage& storage : storages_) {
      module_of_.push_back(block_of(storage.module));
      saver_of_.push_back(storage.owner == Owner::kSavedActivation ? block_of(storage.name)
                                                                   : std::nullopt);
    }
  }

  StepProfile run(const std::vector<TraceEvent>& events, std::size_t first) {
    std::int64_t live = 0;
    double flops_before = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const TraceEvent& event = events[i];
      const std::int64_t bytes = storages_[event.storage].bytes;
      live += event.is_birth ? bytes : -bytes;
      if (i >= first) see(event, live, event.flops - flops_before);
      flops_before = event.flops;
    }
    between_.resize(profile_.blocks.size() + 1);
    profile_.between = std::move(between_);
    return std::move(profile_);
  }

 private:
  /// Returns the block that contains the module at `path`; nullopt if none does.
  std::optional<std::size_t> block_of(const std::string& path) {
    if (path.empty()) return {};
    const auto [entry, is_new] = known_.try_emplace(path);
    if (!is_new) return entry->second;
    for (std::size_t block = 0; block < paths_.size(); ++block) {
      const std::string& own = paths_[block];
      if (!path.starts_with(own) || (path.size() > own.size() && path[own.size()] != '.')) continue;
      entry->second = block;
      break;
    }
    return entry->second;
  }

  /// Returns the position of `block` among the blocks that have run.
  std::size_t place_of(std::size_t block) {
    const auto [entry, is_new] = places_.try_emplace(block, profile_.blocks.size());
    if (is_new) {
      profile_.blocks.push_back({.path = paths_[block]});
      held_.push_back(0);
    }
    return entry->second;
  }

  void see(const TraceEvent& event, std::int64_t live, double flops) {
    const bool is_forward = event.phase == StepPhase::kForward;
    const bool is_in_step =
        is_forward || event.phase == StepPhase::kLoss || event.phase == StepPhase::kBackward;
    if (!is_in_step) {
      current_.reset();
      // Between the forward and the backward pass, the blocks keep what they have saved.
      if (event.phase == StepPhase::kIdle && before_backward_)
        note(event, live, flops, was_forward_);
      else profile_.elsewhere = std::max(profile_.elsewhere, live);
      return;
    }
    before_backward_ = event.phase != StepPhase::kBackward;
    if (is_forward != was_forward_) {
      if (was_forward_) note_held();
      else entered_ = 0;
      was_forward_ = is_forward;
      current_.reset();
    }
    const auto ran = module_of_[event.storage], saved = saver_of_[event.storage];
    if (event.is_birth && ran) current_ = place_of(*ran);
    else if (!is_forward && saved) current_ = place_of(*saved);
    else if (is_forward && event.is_birth) current_.reset();
    if (is_forward && current_) entered_ = std::max(entered_, *current_ + 1);
    if (saved && is_forward) {
      // Memory freed in the forward pass of the next part belongs to the previous part.
      std::int64_t& held = held_[place_of(*saved)];
      held += event.is_birth ? storages_[event.storage].bytes : 0;
    }
    note(event, live, flops, is_forward);
  }

  void note(const TraceEvent& event, std::int64_t live, double flops, bool is_forward) {
    if (!current_) {
      // The event is outside all blocks, and `entered_` blocks have saved activations.
      between_.resize(std::max(between_.size(), entered_ + 1));
      between_[entered_] = std::max(between_[entered_], live);
      return;
    }
    BlockProfile& block = profile_.blocks[*current_];
    block.peak = std::max(block.peak, live);
    if (!is_forward) return;
    block.forward.flops += flops;
    if (!event.is_birth) return;
    block.forward.traffic += static_cast<double>(storages_[event.storage].bytes);
    block.forward.operations += 1;
  }

  void note_held() {
    for (std::size_t place = 0; place < held_.size(); ++place) {
      BlockProfile& block = profile_.blocks[place];
      block.held = std::max(block.held, held_[place]);
      held_[place] = 0;
    }
  }

  const std::vector<TracedStorage>& storages_;
  const std::vector<std::string>& paths_;
  std::unordered_map<std::string, std::optional<std::size_t>> known_;
  std::vector<std::optional<std::size_t>> module_of_, saver_of_;  // per storage
  std::unordered_map<std::size_t, std::size_t> places_;           // block to place
  std::vector<std::int64_t> held_;  // bytes saved in the current part, by place
  std::vector<std::int64_t> between_;
  std::optional<std::size_t> current_;
  std::size_t entered_ = 0;
  bool was_forward_ = false;
  bool before_backward_ = false;  // saved activations of a forward pass are live
  StepProfile profile_;
};

}  // namespace

StepProfile profile(const RecordedWork& work, std::size_t first_event,
                    const std::vector<std::string>& blocks) {
  return ProfileWalk(work.storages, blocks).run(work.events, first_event);
}

namespace {

/// The chain of blocks, each of which is kept or recomputed. "Extra" bytes are those that earlier
/// blocks keep in addition to what they would keep if recomputed.
class Chain {
 public:
  Chain(const StepProfile& kept, const StepProfile& recomputed)
      : kept_(kept), recomputed_(recomputed) {
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

  /// Returns the peak of live bytes in block `i` and outside the blocks before it, if earlier
  /// blocks keep `extra` bytes.
  std::int64_t needed(std::size_t i, bool is_recomputed, std::int64_t extra) const {
    const std::int64_t peak = is_recomputed ? recomputed_.blocks[i].peak + extra
                                            : kept_.blocks[i].peak - all_extra_before_[i] + extra;
    return std::max(peak, outside(i, extra));
  }
  /// Like needed(), but after the last block and in other phases.
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
  std::vector<std::int64_t> all_extra_before_;  // extra bytes before each block, if all blocks are
                                                // kept
};

/// Which of the first blocks to recompute.
struct Recomputation {
  std::int64_t extra = 0;  // extra bytes that these blocks keep
  double seconds = 0;      // the time for recomputing
  std::vector<bool> recomputed = {};
};

/// Keeps only choices that no other choice beats in both memory and time.
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

std::optional<std::vector<bool>> choose_blocks(
    const StepProfile& kept, const StepProfile& recomputed, std::int64_t bytes,
    const std::function<double(const StepWork&)>& seconds) {
  const Chain chain(kept, recomputed);
  // Choices that differ by fewer bytes count as equal. This limits the number of choices; about a
  // ten-thousandth of the budget does not matter.
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
  std::erase_if(choices, [&](const Recomputation& choice) {
    return chain.needed_at_end(choice.extra) > bytes;
  });
  const auto best = std::ranges::min_element(choices, {}, &Recomputation::seconds);
  if (best == choices.end()) return {};
  return best->recomputed;
}

std::int64_t bytes_needed(const StepProfile& kept, const StepProfile& recomputed,
                          const std::vector<bool>& blocks) {
  const Chain chain(kept, recomputed);
  std::int64_t extra = 0, needed = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    needed = std::max(needed, chain.needed(i, blocks[i], extra));
    if (!blocks[i]) extra += chain.extra(i);
  }
  return std::max(needed, chain.needed_at_end(extra));
}

}  // namespace stages
