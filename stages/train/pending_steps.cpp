#include "stages/train/pending_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stages {

bool UsualSize::is_proportionate(double number) const {
  constexpr double kFirst = 1e6;
  return std::abs(number) <= (usual_ ? factor_ * *usual_ : kFirst);
}

bool UsualSize::observe(double number) {
  constexpr double kLeast = 1,
                   kGrowth = 1.05;  // kLeast: 0.01 after 0.0001 is not reported
  if (!is_proportionate(number)) return false;
  const double size = std::max(std::abs(number), kLeast);
  usual_ = usual_ ? std::max(*usual_, std::min(size, kGrowth * *usual_)) : size;
  return true;
}

namespace {

constexpr std::int64_t kMaxSkipped = 100;  // by then, the scale has shrunk by a factor of 2^100
constexpr std::size_t kMaxPending = 100;

}  // namespace

void PendingSteps::mark_written() {
  if (!steps_.empty()) steps_.back().written = true;
}

void PendingSteps::flush(std::size_t allowed) {
  if (steps_.size() <= allowed) return;
  steps_[steps_.size() - allowed - 1].numbers.wait();  // numbers of earlier steps arrive
                                                       // first
  while (steps_.size() > allowed) {
    PendingStep& step = steps_.front();
    const bool written = std::exchange(step.written, false);  // a step that is rejected here does
                                                              // not count as written
    refuse_not_finite(step.numbers, step.place, data_);
    skipped_in_a_row_ = step.numbers.skipped() ? skipped_in_a_row_ + 1 : 0;
    if (skipped_in_a_row_ == kMaxSkipped)
      refuse_endless_overflow(step.place, *step.numbers.loss_scale());
    step.written = written;
    record(step);
    steps_.pop_front();
  }
  log_.progress(epoch_.last);
}

void PendingSteps::flush_due() {
  if (steps_.size() < 2) return;
  const PendingStep& previous = steps_[steps_.size() - 2];
  if (log_.has_metrics(previous.place.step) || previous.histograms || steps_.size() > kMaxPending)
    flush(1);
}

void PendingSteps::record(const PendingStep& step) {
  StepRecord& last = epoch_.last;
  last = {step.place.epoch,          step.place.step,
          step.place.units,          step.rates[0].learning_rate,
          step.numbers.means(),      step.numbers.gradient_norm(),
          step.numbers.loss_scale(), step.numbers.skipped()};
  for (std::size_t group = 1; group < step.rates.size(); ++group)
    last.group_rates.emplace_back(groups_[group], step.rates[group].learning_rate);
  if (!last.skipped) look_at_sizes(step);
  epoch_.means.add(last.means);
  epoch_.skipped_steps += last.skipped;
  log_.step(last);
  if (step.histograms && !last.skipped) log_.gradients(*step.histograms, last.step);
}

void PendingSteps::look_at_sizes(const PendingStep& step) {
  const auto look = [&](UsualSize& usual, const std::string& what, double number) {
    if (usual.observe(number) || std::exchange(has_said_disproportionate_, true)) return;
    log_.say(disproportionate(what, number, usual.usual(), step.place, data_));
  };
  look(losses_, "the loss", epoch_.last.means.loss);
  if (epoch_.last.gradient_norm)
    look(gradient_norms_, "the gradient's norm", *epoch_.last.gradient_norm);
  epoch_.usual_loss = losses_.usual();
}

void PendingSteps::begin_epoch() {
  epoch_ = {.last = epoch_.last, .usual_loss = epoch_.usual_loss};
  has_said_disproportionate_ = false;
}

void PendingSteps::undo_unwritten(const StepSnapshot& before) const {
  const auto step = std::ranges::find(steps_, false, &PendingStep::written);
  if (step != steps_.end()) before.restore(step->generators);
}

void PendingSteps::restore(EpochSoFar epoch, std::int64_t skipped_in_a_row) {
  epoch_ = std::move(epoch);
  losses_.set_usual(epoch_.usual_loss);
  skipped_in_a_row_ = skipped_in_a_row;
}

}  // namespace stages
