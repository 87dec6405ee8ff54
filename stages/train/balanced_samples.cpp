#include "stages/train/balanced_samples.h"

#include <algorithm>
#include <map>

#include "runner/shared/stage/stage.h"

namespace stages {

BalancedSamples::BalancedSamples(std::shared_ptr<const Dataset> source)
    : source_(std::move(source)), size_(source_->describe().size) {
  const std::vector<std::int64_t> labels = source_->labels();
  if (std::ssize(labels) != size_) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "sampling: balanced needs the class of each sample, but the training "
                             "data does not provide it in advance")
        .at("/sampling")
        .with_help("set sampling: as_is; class_weights can balance the loss");
  }
  std::map<std::int64_t, std::vector<std::int64_t>> by_label;
  for (std::int64_t index = 0; index < size_; ++index)
    by_label[labels[static_cast<std::size_t>(index)]].push_back(index);
  for (auto& [label, indices] : by_label) {
    const auto classes = std::ssize(by_label), count = std::ssize(indices);
    // The largest number of samples that an epoch draws from a class. An epoch may begin and end
    // within a round.
    const std::int64_t drawn = (size_ + classes - 1) / classes;
    draws_ = std::max(draws_, (drawn + count - 1) / count + 1);
    classes_.push_back(std::move(indices));
  }
}

std::optional<NamedTensors> BalancedSamples::sample(std::int64_t epoch, std::int64_t index) const {
  return source_->sample(epoch * draws_ + index / size_, index % size_);
}

bool BalancedSamples::needs_every_sample() const {
  const auto* remarking = dynamic_cast<const RemarkingDataset*>(source_.get());
  return remarking && remarking->needs_every_sample();
}

std::vector<RemarkingDataset::Remarks> BalancedSamples::take_remarks(
    std::span<const std::int64_t> indices) const {
  const auto* remarking = dynamic_cast<const RemarkingDataset*>(source_.get());
  return remarking ? remarking->take_remarks(indices) : std::vector<Remarks>();
}

SampleOrder BalancedSamples::epoch_order(std::uint64_t seed, std::int64_t epoch) const {
  const std::int64_t classes = std::ssize(classes_);
  std::vector<std::int64_t> drawn;
  drawn.reserve(static_cast<std::size_t>(size_));
  std::vector<std::int64_t> times(static_cast<std::size_t>(size_));  // how many times each sample
                                                                     // has been drawn
  for (std::int64_t label = 0; label < classes; ++label) {
    // Draw t, counted from the start of training, belongs to class t modulo `classes`.
    const auto before = [&](std::int64_t draws) { return (draws - label + classes - 1) / classes; };
    const auto& own = classes_[static_cast<std::size_t>(label)];
    const std::int64_t count = std::ssize(own);
    const std::int64_t first = before(epoch * size_), last = before((epoch + 1) * size_);
    for (std::int64_t draw = first; draw < last;) {
      const std::int64_t turn = draw / count;
      const SampleOrder order =
          shuffled_order(count, seed + static_cast<std::uint64_t>(label) + 1, turn);
      for (; draw < last && draw / count == turn; ++draw) {
        const std::int64_t index = own[static_cast<std::size_t>(order[draw % count])];
        drawn.push_back(index + size_ * times[static_cast<std::size_t>(index)]++);
      }
    }
  }
  const SampleOrder places = shuffled_order(size_, seed, epoch);
  std::vector<std::int64_t> result;
  result.reserve(drawn.size());
  for (std::int64_t place = 0; place < places.size(); ++place)
    result.push_back(drawn[static_cast<std::size_t>(places[place])]);
  return result;
}

std::string balanced_twice(const std::string& weights) {
  return "sampling: balanced and " + weights +
         " both compensate for rare classes: their samples are drawn more often and also weigh "
         "more; turn one of them off to compensate only once";
}

TrainingData draw_balanced(TrainingData data, std::uint64_t /*seed*/) {
  data.train = std::make_shared<BalancedSamples>(data.train);
  return data;
}

}  // namespace stages
