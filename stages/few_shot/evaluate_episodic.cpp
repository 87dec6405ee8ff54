#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/checkpoint.h"
#include "stages/artifact/results.h"
#include "stages/artifact/episode_set.h"
#include "stages/evaluate/classification_report.h"
#include "stages/evaluate/csv.h"
#include "stages/few_shot/episode_metrics.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/trained_images.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct EpisodicTest {
  std::int64_t episodes = 0, seed = 0;
  std::optional<std::int64_t> ways, shots, queries;  // nullopt: as in training
  bool allow_trained = false;
  std::string pointer;
};

/// The test classes in episodes. Throws where the checkpoint was not trained on episodes.
std::shared_ptr<const EpisodeSet> test_episodes(const EpisodicTest& test, std::shared_ptr<const Dataset> images,
                                                const Checkpoint& checkpoint) {
  const auto trained = episode_shape({.tensors = checkpoint.inputs});
  if (!trained) {
    throw StageError(ErrorCode::kOptionConflict, "the model was not trained on episodes")
        .with_help("evaluate it with evaluate.classification, or train it with train.episodic");
  }
  const EpisodeShape shape = {.ways = test.ways.value_or(trained->ways),
                              .shots = test.shots.value_or(trained->shots),
                              .queries = test.queries.value_or(trained->queries)};
  return std::make_shared<EpisodeSet>(
      std::move(images),
      EpisodeSet::Options{.shape = shape, .episodes = test.episodes, .seed = static_cast<std::uint64_t>(test.seed)},
      "the test data");
}

/// The classes that a training has seen, of those that it is tested on.
std::vector<std::string> classes_seen(const std::vector<std::string>& tested, const std::vector<std::string>& trained) {
  std::vector<std::string> seen;
  std::ranges::copy_if(tested, std::back_inserter(seen),
                       [&](const std::string& name) { return std::ranges::find(trained, name) != trained.end(); });
  return seen;
}

class EpisodicEvaluation final : public runner::Stage {
 public:
  explicit EpisodicEvaluation(EpisodicTest test) : test_(std::move(test)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs, runner::PlanContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(*inputs.get<Dataset>("test"), test_.allow_trained, context);
    network.plan(context);
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(*inputs.get<Dataset>("test"), test_.allow_trained, context);
    const Checkpoint& checkpoint = network.checkpoint();
    const ScopedMemoryBudget budget = network.hold_budget(context);
    const std::vector<std::string> classes = network.test().describe().classes;
    if (const auto seen = classes_seen(classes, checkpoint.classes); !seen.empty()) {
      context.say(std::to_string(seen.size()) + " of the " + std::to_string(classes.size()) +
                  " test classes were trained on, such as '" + seen.front() + "': this measures no new classes");
    }
    const ClassifiedSamples samples = network.classify(context);
    const auto& episodes = dynamic_cast<const EpisodeSet&>(network.test());
    std::vector<std::vector<std::int64_t>> ways;
    for (std::size_t episode = 0; episode < samples.names.size(); ++episode)
      ways.push_back(episodes.classes(/*epoch=*/0, static_cast<std::int64_t>(episode)));
    const EpisodeMetrics metrics =
        episode_metrics(samples.logits, samples.labels, ways, static_cast<std::int64_t>(classes.size()));
    write(metrics, ways, classes, episodes.fingerprint(), checkpoint, context);

    const auto numbers = std::make_shared<Metrics>();
    numbers->values = summary(metrics);
    for (const auto& [name, value] : numbers->values) context.metric("evaluate/" + name, value, checkpoint.step);
    context.say(headline(metrics));
    return {{"metrics", numbers}};
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    const auto draw = [this](std::shared_ptr<const Dataset> test, const Checkpoint& checkpoint) {
      return test_episodes(test_, std::move(test), checkpoint);
    };
    return Predictor(inputs, {.batch_size = 1, .pointer = test_.pointer, .draw = draw});
  }

  static void write(const EpisodeMetrics& metrics, const std::vector<std::vector<std::int64_t>>& ways,
                    const std::vector<std::string>& classes, const std::string& drawn, const Checkpoint& checkpoint,
                    const runner::RunContext& context) {
    nlohmann::ordered_json json = {{"epoch", checkpoint.epoch}, {"step", checkpoint.step}};
    json.update(to_json(metrics, classes));
    json["accuracies"] = metrics.accuracies;
    json["drawn"] = drawn;
    json["smoke"] = context.node().smoke;
    // Class names come from folders, which need not be UTF-8.
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    runner::write_atomically(runner::NodeLayout(context.node().folder).metrics(),
                             json.dump(2, ' ', false, replace) + "\n");
    runner::write_atomically(runner::NodeLayout(context.node().folder).episodes(),
                             episodes_csv(metrics, ways, classes));
    if (metrics.confusion.classes() <= kLargestMatrix) {
      runner::write_atomically(context.node().folder / "confusion_matrix.csv",
                               confusion_csv(metrics.confusion, classes));
    }
  }

  const EpisodicTest test_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_episodic_evaluation(runner::ConfigReader& reader) {
  EpisodicTest test;
  reader.read("episodes", test.episodes);
  reader.read("seed", test.seed);
  reader.read("allow_trained", test.allow_trained);
  runner::read_or_auto(reader, "ways", test.ways);
  runner::read_or_auto(reader, "shots", test.shots);
  runner::read_or_auto(reader, "queries", test.queries);
  test.pointer = reader.pointer();
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<EpisodicEvaluation>(std::move(test)));
}

}  // namespace

extern const runner::StageKind kEvaluateEpisodic = {"evaluate.episodic", create_episodic_evaluation};

}  // namespace stages
