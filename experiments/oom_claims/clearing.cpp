// The effect of clearing, limiting and configuring the allocator's cache, measured by replaying its
// rules.

#include <algorithm>

#include "experiments/oom_claims/claim.h"
#include "experiments/oom_claims/replay.h"
#include "experiments/oom_claims/text.h"

namespace oom_claims {
namespace {

constexpr std::int64_t kGB = 1000 * 1000 * 1000;

DryRun episodes() { return dry_run({.network = resnet34(), .batch = 105}, 6); }

std::string overhead(const Replayed& replayed) {
  return change(replayed.peak_allocated, replayed.peak_reserved);
}

}  // namespace

Finding clearing_defragments() {
  const Housekeeping clearing{.clear_every = 1};
  Finding finding;
  bool helps = false, always_helps = true;
  for (const bool varies : {false, true}) {
    const DryRun run =
        varies ? dry_run({.network = resnet34(), .batches = {60, 105, 80, 97, 73, 105}}, 6)
               : episodes();
    const Replayed kept = replay(run, {}), cleared = replay(run, {}, clearing);
    const std::int64_t needs = smallest_device(run, {}),
                       needs_cleared = smallest_device(run, {}, clearing);
    (needs_cleared < needs ? helps : always_helps) = needs_cleared < needs;
    finding.measured +=
        (varies ? "; batches of 60 to 105: " : "6 steps of ResNet-34, batch 105: ") +
        size(kept.peak_reserved) + " reserved, with the cache cleared after every step " +
        size(cleared.peak_reserved) + "; segments: " + std::to_string(kept.segments) + " and " +
        std::to_string(cleared.segments) + "; smallest sufficient device: " + size(needs) +
        " and " + size(needs_cleared);
  }
  finding.verdict = helps && always_helps ? Verdict::kRight
                    : helps               ? Verdict::kInPart
                                          : Verdict::kWrong;
  finding.instead =
      "it returns only segments that are entirely unused, and moves no data; the allocator does "
      "the same before an allocation fails";
  return finding;
}

Finding expandable_segments_help() {
  Finding finding{.verdict = Verdict::kRight};
  std::size_t better = 0;
  const std::vector<Training> trainings = {{.network = resnet34(), .batch = 105},
                                           {.network = se_resnext50(), .batch = 8},
                                           {.network = vit_b16(), .batch = 64}};
  for (const Training& training : trainings) {
    const DryRun run = dry_run(training, 6);
    const Replayed classic = replay(run, {}),
                   expandable = replay(run, {.expandable_segments = true});
    better += expandable.peak_reserved < classic.peak_reserved;
    finding.measured +=
        (finding.measured.empty() ? "reserved bytes above the bytes in use: " : "; ") +
        training.network.name + " " + overhead(classic) + ", with expandable segments " +
        overhead(expandable);
  }
  if (better < trainings.size()) finding.verdict = better > 0 ? Verdict::kInPart : Verdict::kWrong;
  finding.instead = "they do, to the extent that a replay can show before the run";
  return finding;
}

Finding memory_fraction_prevents_failure() {
  const DryRun run = episodes();
  const std::int64_t needed = smallest_device(run, {});
  const auto device = static_cast<std::int64_t>(static_cast<double>(needed) / 0.97);
  const auto fails = [&](double fraction) {
    return replay(run, {.limit = static_cast<std::int64_t>(static_cast<double>(device) * fraction)})
        .failed_step;
  };
  const auto whole = fails(1), limited = fails(0.95);
  const auto told = [](const std::optional<std::size_t>& step) {
    return step ? "fails in step " + std::to_string(*step) : std::string("runs");
  };
  return {
      .verdict = limited && !whole   ? Verdict::kWrong
                 : whole && !limited ? Verdict::kRight
                                     : Verdict::kInPart,
      .measured = "ResNet-34, batch 105, on a device of " + size(device) + ": " + told(whole) +
                  " with all of its memory, " + told(limited) + " with 95%",
      .instead = "the limit makes the process fail earlier; it leaves memory for other processes"};
}

Finding fragmentation_fills_the_device() {
  const Training training{.network = se_resnext50(), .batch = 8};
  const Replayed step = replay(dry_run(training, 6), {});
  const std::int64_t lost = step.peak_reserved - step.peak_allocated;
  constexpr std::int64_t kSeen = 15'290'000'000, kExpected = 6 * kGB;
  return {.verdict = lost >= kSeen - kExpected            ? Verdict::kRight
                     : step.peak_reserved > kExpected / 2 ? Verdict::kInPart
                                                          : Verdict::kWrong,
          .measured = training.network.name + ", batch 8, AdamW: " + size(step.peak_allocated) +
                      " in use and " + size(lost) + " lost to fragmentation; the claim reports " +
                      size(kSeen),
          .instead =
              "a step needs a tenth of it: something kept several models or graphs alive, and a "
              "table of live tensors by owner shows what"};
}

Finding clearing_outruns_a_leak() {
  constexpr std::int64_t kLeak = 64 << 20;
  const DryRun run = dry_run({.network = se_resnext50(), .batch = 8}, 45);
  const stages::AllocatorRules rules{.limit = smallest_device(run, {}) + 37 * kLeak};
  const auto kept = replay(run, rules, {.leak = kLeak}).failed_step;
  const auto cleared = replay(run, rules, {.clear_every = 3, .leak = kLeak}).failed_step;
  const auto told = [](const std::optional<std::size_t>& epoch) {
    return epoch ? "in epoch " + std::to_string(*epoch) : std::string("never");
  };
  return {.verdict = !cleared         ? Verdict::kRight
                     : cleared > kept ? Verdict::kInPart
                                      : Verdict::kWrong,
          .measured = "if live memory grows by 64 MiB per epoch, the run fails " + told(kept) +
                      "; with the cache cleared every 3 epochs, " + told(cleared),
          .instead =
              "the growing memory is live, and clearing frees only unused memory; to find the "
              "cause of the growth, look at live memory by owner"};
}

}  // namespace oom_claims
