#include "stages/artifact/episode_set.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <type_traits>
#include <utility>

#include <torch/types.h>

#include "runner/shared/stage/split_mix.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/loader.h"
#include "stages/random/random.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kMostNamed = 10;

std::string class_name(const DatasetDescription& data, std::int64_t label) {
  const auto place = static_cast<std::size_t>(label);
  return label >= 0 && place < data.classes.size() ? data.classes[place]
                                                   : "class " + std::to_string(label);
}

/// Returns the tensors of an episode, given the tensors of one sample.
std::vector<TensorSpec> episode_tensors(const std::vector<TensorSpec>& tensors,
                                        const EpisodeShape& shape) {
  std::vector<TensorSpec> result;
  for (const TensorSpec& one : tensors) {
    if (one.name == "label" || one.name == "caption") continue;
    TensorSpec all = one;
    all.shape.insert(all.shape.begin(), shape.samples());
    result.push_back(std::move(all));
  }
  result.push_back({"support", {shape.ways, shape.shots}, at::kLong});
  result.push_back({"label", {shape.ways * shape.queries}, at::kLong});
  return result;
}

DatasetDescription described_episodes(DatasetDescription data, const EpisodeSet::Options& options) {
  if (data.source)
    data.source = std::make_shared<DatasetDescription>(described_episodes(*data.source, options));
  data.size = options.episodes;
  data.tensors = episode_tensors(data.tensors, options.shape);
  data.augmented = data.augmented || options.draws_anew;
  data.captions.clear();
  return data;
}

const TensorSpec* find_spec(const DatasetDescription& data, std::string_view name) {
  const auto found = std::ranges::find(data.tensors, name, &TensorSpec::name);
  return found == data.tensors.end() ? nullptr : &*found;
}

}  // namespace

std::optional<EpisodeShape> episode_shape(const DatasetDescription& data) {
  const TensorSpec* const support = find_spec(data, "support");
  const TensorSpec* const label = find_spec(data, "label");
  if (!support || support->shape.size() != 2 || !label || label->shape.size() != 1) return {};
  const std::int64_t ways = support->shape[0];
  if (ways < 1 || label->shape[0] % ways != 0) return {};
  return EpisodeShape{.ways = ways, .shots = support->shape[1], .queries = label->shape[0] / ways};
}

EpisodeSet::EpisodeSet(std::shared_ptr<const Dataset> source, Options options,
                       const std::string& part)
    : source_(std::move(source)),
      options_(options),
      description_(described_episodes(source_->describe(), options)) {
  const EpisodeShape& shape = options_.shape;
  const DatasetDescription data = source_->describe();
  const std::vector<std::int64_t> labels = source_->labels();
  if (std::ssize(labels) != data.size || labels.empty()) {
    throw StageError(ErrorCode::kTooFewSamples,
                     "the class labels of " + part + " are not known before its samples are read")
        .with_help(
            "connect labeled data, such as the output of data.few_shot or data.image_folder");
  }
  std::map<std::int64_t, std::vector<std::int64_t>> by_label;
  for (std::int64_t index = 0; index < data.size; ++index)
    by_label[labels[static_cast<std::size_t>(index)]].push_back(index);

  if (std::ssize(by_label) < shape.ways) {
    throw StageError(ErrorCode::kTooFewSamples, part + " has " + std::to_string(by_label.size()) +
                                                    " classes, but an episode needs " +
                                                    std::to_string(shape.ways))
        .at("/ways")
        .with_help("set ways to at most " + std::to_string(by_label.size()) +
                   ", or add more classes");
  }
  std::string small;
  std::size_t count = 0;
  for (const auto& [label, samples] : by_label) {
    if (std::ssize(samples) >= shape.per_class() || ++count > kMostNamed) continue;
    small += (small.empty() ? "'" : ", '") + class_name(data, label) + "' has " +
             std::to_string(samples.size());
  }
  if (count > 0) {
    throw StageError(ErrorCode::kTooFewSamples,
                     "an episode needs " + std::to_string(shape.per_class()) +
                         " images per class, " + std::to_string(shape.shots) + " for support and " +
                         std::to_string(shape.queries) + " for queries, but in " + part + " " +
                         small +
                         (count > kMostNamed
                              ? " and " + std::to_string(count - kMostNamed) + " more have too few"
                              : ""))
        .at("/queries")
        .with_help("lower queries or shots, or leave such classes out");
  }
  for (auto& [label, samples] : by_label) {
    labels_.push_back(label);
    samples_.push_back(std::move(samples));
  }
}

std::uint64_t EpisodeSet::key(std::int64_t epoch, std::int64_t index) const {
  const std::int64_t drawn = options_.draws_anew ? epoch : 0;
  return Random(
             {options_.seed, static_cast<std::uint64_t>(drawn), static_cast<std::uint64_t>(index)})
      .next();
}

std::vector<std::size_t> EpisodeSet::draw_classes(std::uint64_t key) const {
  const SampleOrder order = shuffled_order(std::ssize(labels_), key, 0);
  std::vector<std::size_t> drawn;
  for (std::int64_t way = 0; way < options_.shape.ways; ++way)
    drawn.push_back(static_cast<std::size_t>(order[way]));
  return drawn;
}

std::vector<std::int64_t> EpisodeSet::classes(std::int64_t epoch, std::int64_t index) const {
  std::vector<std::int64_t> labels;
  for (const std::size_t drawn : draw_classes(key(epoch, index))) labels.push_back(labels_[drawn]);
  return labels;
}

std::optional<NamedTensors> EpisodeSet::sample(std::int64_t epoch, std::int64_t index) const {
  std::vector<std::int64_t> from(static_cast<std::size_t>(options_.shape.samples()));
  return drawn(epoch, index, from);
}

std::vector<std::int64_t> EpisodeSet::source_samples(std::int64_t epoch, std::int64_t index) const {
  std::vector<std::int64_t> from(static_cast<std::size_t>(options_.shape.samples()));
  drawn(epoch, index, from);
  return from;
}

NamedTensors EpisodeSet::drawn(std::int64_t epoch, std::int64_t index,
                               std::vector<std::int64_t>& from) const {
  const EpisodeShape& shape = options_.shape;
  const std::uint64_t drawn_by = key(epoch, index);
  // Each episode uses a different source epoch, so a sample that is drawn twice is augmented in two
  // ways.
  const std::int64_t source_epoch = (options_.draws_anew ? epoch : 0) * options_.episodes + index;

  NamedTensors episode;
  for (const TensorSpec& spec : description_.tensors)
    episode.set(spec.name, torch::empty(spec.shape, spec.dtype));
  const auto put = [&](const NamedTensors& sample, std::int64_t place) {
    for (const TensorSpec& spec : description_.tensors) {
      if (spec.name != "support" && spec.name != "label")
        episode.at(spec.name)[place].copy_(sample.at(spec.name));
    }
  };

  const std::vector<std::size_t> ways = draw_classes(drawn_by);
  for (std::int64_t way = 0; way < shape.ways; ++way) {
    const std::size_t place = ways[static_cast<std::size_t>(way)];
    const std::vector<std::int64_t>& samples = samples_[place];
    const SampleOrder order = shuffled_order(std::ssize(samples), drawn_by, 1 + way);
    std::int64_t taken = 0;
    for (std::int64_t next = 0; next < order.size() && taken < shape.per_class(); ++next) {
      const std::int64_t at = samples[static_cast<std::size_t>(order[next])];
      const std::optional<NamedTensors> sample = source_->sample(source_epoch, at);
      if (!sample) continue;  // unreadable, and skipped as the recipe requests
      const std::int64_t own = taken < shape.shots
                                   ? way * shape.shots + taken
                                   : shape.supports() + way * shape.queries + taken - shape.shots;
      put(*sample, own);
      from[static_cast<std::size_t>(own)] = at;
      ++taken;
    }
    if (taken < shape.per_class()) {
      throw StageError(ErrorCode::kTooFewSamples,
                       "'" + class_name(source_->describe(), labels_[place]) + "' has only " +
                           std::to_string(taken) + " readable images, but an episode needs " +
                           std::to_string(shape.per_class()))
          .with_help("replace its damaged files, or lower shots or queries");
    }
    episode.at("support")[way].fill_(labels_[place]);
    episode.at("label").slice(0, way * shape.queries, (way + 1) * shape.queries).fill_(way);
  }
  return episode;
}

std::string EpisodeSet::fingerprint() const {
  const EpisodeShape& shape = options_.shape;
  std::string facts;
  const auto add = [&](const auto& fact) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(fact)>>) facts += std::to_string(fact);
    else facts += fact;
    facts += '\0';
  };
  for (const std::int64_t number :
       {shape.ways, shape.shots, shape.queries, std::int64_t{options_.draws_anew}})
    add(number);
  add(options_.seed);
  const DatasetDescription data = source_->describe();
  for (std::size_t place = 0; place < labels_.size(); ++place) {
    add(class_name(data, labels_[place]));
    for (const std::int64_t sample : samples_[place]) add(source_->sample_name(sample));
  }
  std::array<char, 20> text;
  std::snprintf(text.data(), text.size(), "%016llx",
                static_cast<unsigned long long>(runner::fnv1a(facts)));
  return text.data();
}

std::string EpisodeSet::sample_name(std::int64_t index) const {
  return "episode " + std::to_string(index);
}

}  // namespace stages
