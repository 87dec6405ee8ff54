#include "stages/retina/class_pair.h"

#include <algorithm>

#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"

namespace stages {
namespace {

[[noreturn]] void refuse_pair(const std::string& message, const std::string& help) {
  throw runner::StageError(runner::ErrorCode::kLabelOutOfRange, message).at("/classes").with_help(help);
}

/// A description of the whole, about two of its classes.
DatasetDescription about_pair(DatasetDescription whole, const std::array<std::int64_t, 2>& pair) {
  whole.pair_of = static_cast<std::int64_t>(whole.classes.size());
  for (std::vector<std::string>* names : {&whole.classes, &whole.class_words}) {
    if (names->empty()) continue;
    *names = {(*names)[static_cast<std::size_t>(pair[0])], (*names)[static_cast<std::size_t>(pair[1])]};
  }
  return whole;
}

}  // namespace

std::int64_t chosen_class(const ClassChoice& choice, const std::vector<std::string>& classes) {
  if (const auto* number = std::get_if<std::int64_t>(&choice)) {
    if (*number >= 0 && *number < std::ssize(classes)) return *number;
    refuse_pair("the class " + std::to_string(*number) + " is not among the data's " + std::to_string(classes.size()),
                "number them from 0 to " + std::to_string(classes.size() - 1) + ", or give their names");
  }
  const std::string& name = std::get<std::string>(choice);
  const auto found = std::ranges::find(classes, name);
  if (found == classes.end()) refuse_pair("the data has no class '" + name + "'", runner::did_you_mean(name, classes));
  return found - classes.begin();
}

ClassPair::ClassPair(std::shared_ptr<const Dataset> source, std::array<std::int64_t, 2> pair, std::int64_t batch_size,
                     const std::string& part)
    : source_(std::move(source)), pair_(pair), batch_size_(batch_size) {
  const DatasetDescription whole = source_->describe();
  pair_of_ = static_cast<std::int64_t>(whole.classes.size());
  const std::vector<std::int64_t> labels = source_->labels();
  if (std::ssize(labels) != whole.size)
    refuse_pair("a pair of classes needs the class of each sample, and the data does not give it in advance",
                "wire labelled images to this stage");
  for (std::int64_t index = 0; index < whole.size; ++index) {
    const auto found = std::ranges::find(pair_, labels[static_cast<std::size_t>(index)]);
    if (found == pair_.end()) continue;
    indices_.push_back(index);
    labels_.push_back(found - pair_.begin());
  }
  for (std::int64_t label = 0; label < 2; ++label) {
    if (std::ranges::find(labels_, label) != labels_.end()) continue;
    const auto number = static_cast<std::size_t>(pair_[static_cast<std::size_t>(label)]);
    refuse_pair("the " + part + " has no sample of the class '" + whole.classes[number] + "'",
                "give that class samples, in every part of the data, or leave out its pairs");
  }
}

DatasetDescription ClassPair::describe() const {
  DatasetDescription whole = source_->describe();
  whole.size = std::ssize(indices_);
  if (whole.source) whole.source = std::make_shared<DatasetDescription>(about_pair(*whole.source, pair_));
  return about_pair(std::move(whole), pair_);
}

std::optional<NamedTensors> ClassPair::sample(std::int64_t epoch, std::int64_t index) const {
  auto sample = source_->sample(epoch, source_index(index));
  if (sample) sample->set("label", torch::tensor(labels_[static_cast<std::size_t>(index)]));
  return sample;
}

RemarkingDataset::Remarks ClassPair::take_remarks(std::span<const std::int64_t> indices) const {
  const auto* remarking = dynamic_cast<const RemarkingDataset*>(source_.get());
  if (!remarking) return {};
  std::vector<std::int64_t> of_source;
  for (const std::int64_t index : indices) of_source.push_back(source_index(index));
  return remarking->take_remarks(of_source);
}

LoaderOptions ClassPair::loader() const {
  LoaderOptions options = source_->loader();
  if (std::ssize(indices_) < batch_size_) options.drop_last = false;
  return options;
}

}  // namespace stages
