#include "stages/few_shot/episode_examples.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/class_scores.h"
#include "stages/artifact/episode_set.h"
#include "stages/evaluate/example_images.h"

namespace stages {
namespace {

/// A query of an episode; its classes are indices of the episode's ways.
struct AnsweredQuery {
  std::size_t place = 0;  ///< position among the queries of the episode
  std::int64_t label = 0, predicted = 0;
  double probability = 0;

  bool is_correct() const { return label == predicted; }
};

/// Returns an episode's queries, the most confident first.
std::vector<AnsweredQuery> answered_queries(const at::Tensor& logits, const at::Tensor& labels,
                                            std::int64_t episode, std::int64_t queries) {
  std::vector<AnsweredQuery> answered;
  for (std::int64_t place = 0; place < queries; ++place) {
    const std::int64_t row = episode * queries + place;
    const ClassScores scores = class_scores(logits, row);
    const std::int64_t predicted = scores.predicted();
    answered.push_back({static_cast<std::size_t>(place), labels[row].item<std::int64_t>(),
                        predicted, scores.probability(predicted)});
  }
  std::ranges::stable_sort(answered, std::greater{}, &AnsweredQuery::probability);
  return answered;
}

/// Returns all ways; those that wrong queries belong to or are mistaken for come first.
std::vector<std::int64_t> ways_to_show(const std::vector<AnsweredQuery>& answered,
                                       std::int64_t ways) {
  std::vector<std::int64_t> order;
  const auto add = [&](std::int64_t way) {
    if (std::ranges::find(order, way) == order.end()) order.push_back(way);
  };
  for (const AnsweredQuery& query : answered) {
    if (query.is_correct()) continue;
    add(query.label);
    add(query.predicted);
  }
  for (std::int64_t way = 0; way < ways; ++way) add(way);
  return order;
}

/// Collects the examples of one episode.
class EpisodeExamples {
 public:
  EpisodeExamples(const EpisodeSet& episodes, std::int64_t episode, std::int64_t count)
      : source_(episodes.source()),
        shape_(*episode_shape(episodes.describe())),
        from_(episodes.source_samples(/*epoch=*/0, episode)),
        ways_(episodes.classes(/*epoch=*/0, episode)),
        classes_(episodes.describe().classes),
        title_("episode " + std::to_string(episode)),
        count_(static_cast<std::size_t>(count)) {}

  void add_queries(const std::vector<AnsweredQuery>& answered, bool are_correct) {
    const std::string group = (are_correct ? "correct queries of " : "wrong queries of ") + title_ +
                              ", which has the lowest accuracy";
    std::size_t added = 0;
    for (const AnsweredQuery& query : answered) {
      if (query.is_correct() != are_correct || added == count_) continue;
      const auto supports = static_cast<std::size_t>(shape_.supports());
      examples_.push_back({group,
                           name_of(supports + query.place),
                           {{"label", class_of(query.label)},
                            {"predicted", class_of(query.predicted)},
                            {"probability", query.probability}}});
      ++added;
    }
  }

  void add_supports(const std::vector<std::int64_t>& ways) {
    const std::int64_t shown =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(count_) / shape_.ways, 1, shape_.shots);
    std::size_t added = 0;
    for (const std::int64_t way : ways) {
      for (std::int64_t shot = 0; shot < shown && added < count_; ++shot, ++added)
        examples_.push_back({"support images of " + title_,
                             name_of(static_cast<std::size_t>(way * shape_.shots + shot)),
                             {{"support_of", class_of(way)}}});
    }
  }

  const std::vector<ExampleImage>& examples() const { return examples_; }

 private:
  std::string name_of(std::size_t place) const { return source_.sample_name(from_[place]); }
  const std::string& class_of(std::int64_t way) const {
    return classes_[static_cast<std::size_t>(ways_[static_cast<std::size_t>(way)])];
  }

  const Dataset& source_;
  const EpisodeShape shape_;
  const std::vector<std::int64_t> from_;  // for each sample of the episode, its index in the source
  const std::vector<std::int64_t> ways_;  // labels in the source
  const std::vector<std::string> classes_;
  const std::string title_;
  const std::size_t count_;
  std::vector<ExampleImage> examples_;
};

}  // namespace

void write_episode_examples(const at::Tensor& logits, const at::Tensor& labels,
                            const std::vector<double>& accuracies, const EpisodeSet& episodes,
                            std::int64_t count, const std::filesystem::path& folder) {
  if (count == 0 || !shown_as_images(episodes.source())) return;
  const std::int64_t worst = std::ranges::min_element(accuracies) - accuracies.begin();
  const std::int64_t queries = labels.size(0) / std::ssize(accuracies);
  const std::vector<AnsweredQuery> answered = answered_queries(logits, labels, worst, queries);
  EpisodeExamples found(episodes, worst, count);
  found.add_queries(answered, /*are_correct=*/false);
  found.add_queries(answered, /*are_correct=*/true);
  found.add_supports(ways_to_show(answered, logits.size(1)));
  write_examples(found.examples(), episodes.source(), folder);
}

}  // namespace stages
