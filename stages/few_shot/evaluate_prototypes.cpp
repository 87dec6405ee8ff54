#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/loader.h"
#include "stages/artifact/results.h"
#include "stages/few_shot/evaluate_episodic.h"
#include "stages/few_shot/prototypes.h"
#include "stages/memory/policy.h"
#include "stages/plan/plan_forward.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct PrototypeTest {
  EpisodeShape shape;
  std::int64_t episodes = 0, seed = 0;
  std::int64_t examples = 0;  // number of images in each group
  PrototypeRule rule;
};

/// Throws unless the samples of `data` have features.
void check_features(const DatasetDescription& data, const std::string& part) {
  if (std::ranges::count(data.tensors, "features", &TensorSpec::name) > 0) return;
  throw StageError(ErrorCode::kOptionConflict, "the " + part + " data has images, not features")
      .with_help(
          "connect it to a data.features stage with cache: true, and do not augment the images");
}

/// Returns the mean of the features of all readable samples, as float64 of shape (features).
at::Tensor mean_features(const Dataset& data, const runner::RunContext& context) {
  at::Tensor sum;
  std::int64_t count = 0;
  for (std::int64_t index = 0, size = data.describe().size; index < size; ++index) {
    if (context.canceled()) throw runner::Canceled{};
    const std::optional<NamedTensors> sample = data.sample(/*epoch=*/0, index);
    if (!sample) continue;
    const at::Tensor features = sample->at("features").flatten().to(at::kDouble);
    sum = sum.defined() ? sum.add_(features) : features.clone();
    ++count;
  }
  if (count == 0)
    throw StageError(ErrorCode::kTooFewSamples, "no sample of the base data could be read");
  return sum.div_(count);
}

/// Evaluates the features of a network that was not trained on episodes, using a nearest-class-mean
/// classifier.
class PrototypeEvaluation final : public runner::Stage {
 public:
  explicit PrototypeEvaluation(PrototypeTest test) : test_(std::move(test)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const EpisodeSet episodes = drawn(inputs);
    const DatasetDescription data = episodes.describe();
    const MemoryPolicy policy = policy_of(inputs);
    const ForwardToPlan forward{
        .name = "features",
        .data = data,
        .dataset = &episodes,
        .loader = {},
        .batch_size = 1,
        .policy = policy,
        .outline = [] { return std::make_shared<torch::nn::Module>("features"); },
        .batch_option = {},
        .forward =
            [this](torch::nn::Module&, const NamedTensors& batch) {
              return logits_of(batch.at("features")[0], test_.rule);
            }};
    context.plan(plan_forward(forward, /*keeps_results=*/true, context).plan);
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const EpisodeSet episodes = drawn(inputs);
    const at::Device device(context.node().device);
    const ScopedMemoryBudget budget(memory_budget(policy_of(inputs), device), device);
    const torch::NoGradGuard no_graph;
    PrototypeRule rule = test_.rule;
    if (const auto base = inputs.find<Dataset>("base"))
      rule.center = mean_features(*base, context).to(device);

    constexpr std::int64_t kSmokeEpisodes = 2;
    const std::int64_t count =
        context.node().smoke ? std::min(test_.episodes, kSmokeEpisodes) : test_.episodes;
    std::vector<at::Tensor> logits, labels;
    const PassProgress progress("evaluate", count);
    for (std::int64_t index = 0; index < count; ++index) {
      if (context.canceled()) throw runner::Canceled{};
      const NamedTensors episode = *episodes.sample(/*epoch=*/0, index);
      logits.push_back(logits_of(episode.at("features").to(device), rule).to(at::kCPU));
      labels.push_back(episode.at("label"));
      context.progress(progress.after(index + 1, index + 1));
    }
    return {{"metrics", record_episodes(torch::cat(logits), torch::cat(labels), episodes,
                                        test_.examples, {{"epoch", 0}, {"step", 0}}, context)}};
  }

 private:
  EpisodeSet drawn(const runner::Inputs& inputs) const {
    const auto test = inputs.get<Dataset>("test");
    check_features(test->describe(), "test");
    if (const auto base = inputs.find<Dataset>("base")) check_features(base->describe(), "base");
    return EpisodeSet(test,
                      {.shape = test_.shape,
                       .episodes = test_.episodes,
                       .seed = static_cast<std::uint64_t>(test_.seed)},
                      "the test data");
  }

  /// Returns the logits of an episode's queries, given the features of its samples.
  at::Tensor logits_of(const at::Tensor& features, const PrototypeRule& rule) const {
    const std::int64_t supports = test_.shape.supports();
    return prototype_logits(
        features.slice(0, 0, supports).unflatten(0, {test_.shape.ways, test_.shape.shots}),
        features.slice(0, supports), rule);
  }

  static MemoryPolicy policy_of(const runner::Inputs& inputs) {
    const auto policy = inputs.find<MemoryPolicy>("memory");
    return policy ? *policy : MemoryPolicy{};
  }

  const PrototypeTest test_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_prototype_evaluation(
    runner::ConfigReader& reader) {
  PrototypeTest test;
  reader.read("episodes", test.episodes);
  reader.read("seed", test.seed);
  reader.read("examples", test.examples);
  reader.read("ways", test.shape.ways);
  reader.read("shots", test.shape.shots);
  reader.read("queries", test.shape.queries);
  test.rule.distance = runner::choice<PrototypeDistance>(reader, "distance", kPrototypeDistances);
  reader.read("scale", test.rule.scale);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<PrototypeEvaluation>(std::move(test)));
}

}  // namespace

extern const runner::StageKind kEvaluatePrototypes = {"evaluate.prototypes",
                                                      create_prototype_evaluation};

}  // namespace stages
