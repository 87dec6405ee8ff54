#include "stages/plan/step_profile.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace stages {
namespace {

/// Goes through the events of a step once.
class ProfileWalk {
 public:
  ProfileWalk(const MemoryTrace& trace, const std::vector<std::string>& blocks)
      : storages_(trace.storages()), paths_(blocks) {
    for (const TracedStorage& storage : storages_) {
      module_of_.push_back(block_of(storage.module));
      saver_of_.push_back(storage.owner == Owner::kSavedActivation ? block_of(storage.name) : std::nullopt);
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
  /// The block in which the module at `path` is.
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

  /// Its place among those that have run.
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
    const bool is_in_step = is_forward || event.phase == StepPhase::kLoss || event.phase == StepPhase::kBackward;
    if (!is_in_step) {
      current_.reset();
      // After a forward pass and until the backward pass the blocks hold what they have saved.
      if (event.phase == StepPhase::kIdle && before_backward_) note(event, live, flops, was_forward_);
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
      // A death in the forward pass of the next part is that of the part before.
      std::int64_t& held = held_[place_of(*saved)];
      held += event.is_birth ? storages_[event.storage].bytes : 0;
    }
    note(event, live, flops, is_forward);
  }

  void note(const TraceEvent& event, std::int64_t live, double flops, bool is_forward) {
    if (!current_) {
      // Outside of all blocks, so many of which are held.
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

  const std::vector<TracedStorage> storages_;
  const std::vector<std::string>& paths_;
  std::unordered_map<std::string, std::optional<std::size_t>> known_;
  std::vector<std::optional<std::size_t>> module_of_, saver_of_;  // of each storage
  std::unordered_map<std::size_t, std::size_t> places_;           // by block
  std::vector<std::int64_t> held_;                                // of a part so far, by place
  std::vector<std::int64_t> between_;
  std::optional<std::size_t> current_;
  std::size_t entered_ = 0;
  bool was_forward_ = false;
  bool before_backward_ = false;  // what a forward pass has saved is there
  StepProfile profile_;
};

}  // namespace

StepProfile profile(const MemoryTrace& trace, std::size_t first_event, const std::vector<std::string>& blocks) {
  return ProfileWalk(trace, blocks).run(trace.events(), first_event);
}

}  // namespace stages
