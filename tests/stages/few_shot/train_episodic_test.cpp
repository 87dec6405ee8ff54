#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "stages/weights/weights.h"
#include "tests/support/planning_context.h"
#include "tests/support/prototype_model.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/with_graphs.h"

namespace stages {
namespace {

using testing::HasSubstr;

/// The stage with these options, run on episodes of TinyDatasets.
struct EpisodicRun {
  std::shared_ptr<TinyDataset> train = std::make_shared<TinyDataset>(80, 8),
                               validation = std::make_shared<TinyDataset>(40, 4);
  std::shared_ptr<PrototypeModel> model = std::make_shared<PrototypeModel>();
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  RecordingContext context;

  static constexpr const char* kShape =
      R"("ways": 3, "shots": 2, "queries": 3, "episodes": 12, "validation_episodes": 5)";

  /// Not Adam, which divides by the gradient: if a bias moves all features equally, the gradient is
  /// only rounding noise.
  std::string optimizer = R"({"kind": "sgd", "learning_rate": 0.05})";

  EpisodicRun() { policy->pointer = "/memory"; }
  std::unique_ptr<runner::Stage> stage(const std::string& more) const {
    return stage_of(kTrainEpisodic, "{" + std::string(kShape) + R"(, "optimizer": )" + optimizer +
                                        (more.empty() ? "" : ", ") + more + "}");
  }
  runner::Inputs inputs() const {
    return runner::Inputs({{"model", {model}},
                           {"memory", {policy}},
                           {"train", {train}},
                           {"validation", {validation}}},
                          {{"model", "model"}});
  }
  std::shared_ptr<const Checkpoint> run(const std::string& more = R"("epochs": 2)") {
    const runner::Outputs outputs = stage(more)->run(inputs(), context);
    return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
        .get<Checkpoint>("checkpoint");
  }
  runner::MemoryPlan plan(const std::string& more) const {
    PlanningContext planning;
    planning.asked.wants_alternatives = true;
    stage(more)->plan(inputs(), planning);
    return planning.planned.value();
  }
};

at::Tensor flat_weights(const Checkpoint& checkpoint) {
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : weights(*checkpoint.network)) all.push_back(tensor.flatten());
  return torch::cat(all);
}

TEST(Episodic, LearnsFromEpisodesAndStoresTheirShape) {
  EpisodicRun training;
  training.optimizer = R"({"learning_rate": 0.05})";
  const auto checkpoint = training.run(R"("epochs": 6)");
  const std::vector<double> losses = training.context.values("validation/loss");
  ASSERT_EQ(losses.size(), 6u);
  EXPECT_LT(losses.back(), 0.7 * losses.front());
  EXPECT_EQ(episode_shape({.tensors = checkpoint->inputs}),
            (EpisodeShape{.ways = 3, .shots = 2, .queries = 3}));
}

TEST(Episodic, SplittingBetweenEpisodesIsExact) {
  EpisodicRun whole, cut;
  cut.policy->micro_batch = 1;
  const char* const options =
      R"("epochs": 2, "episodes_per_step": 5, "loss": {"variance": 0.5, "covariance": 0.1})";
  const at::Tensor one = flat_weights(*whole.run(options)), other = flat_weights(*cut.run(options));
  EXPECT_LT((one - other).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(whole.context.steps("train/loss").back(), 6);  // 5 + 5 + 2 episodes an epoch
}

TEST(Episodic, LossIsTheMeanOfWeightedTermsOverEpisodes) {
  const auto loss_of = [](const std::string& terms) {
    EpisodicRun training;
    training.run(R"("epochs": 1, "log_every": 1, "loss": )" + terms);
    return training.context.values("train/loss").front();
  };
  const double classification = loss_of("{}"), both = loss_of(R"({"variance": 0.5})"),
               twice = loss_of(R"({"variance": 1.0})"),
               alone = loss_of(R"({"classification": 0, "variance": 1.0})");
  EXPECT_GT(both, classification);
  EXPECT_NEAR(twice - classification, 2 * (both - classification), 1e-5);
  EXPECT_NEAR(twice - classification, alone, 1e-5);
}

TEST(Episodic, CovarianceFormsAgreeAndDifferInMemory) {
  EpisodicRun direct, gram, automatic;
  direct.policy->loss_form = LossForm::kDirect;
  gram.policy->loss_form = LossForm::kGram;
  automatic.policy->loss_form = LossForm::kAuto;
  automatic.policy->allow = Allow::kExact;
  const char* const options = R"("epochs": 1, "loss": {"covariance": 1.0})";
  const at::Tensor one = flat_weights(*direct.run(options)),
                   other = flat_weights(*gram.run(options));
  EXPECT_LT((one - other).abs().max().item<double>(), 1e-5);
  const runner::MemoryPlan large = direct.plan(options), small = gram.plan(options);
  EXPECT_LT(small.needed, large.needed);
  EXPECT_EQ(automatic.plan(options).needed, small.needed);
  const auto offered =
      std::ranges::find(large.alternatives, std::vector<std::string>{"memory.loss_form=gram"},
                        &runner::PlanAlternative::overrides);
  ASSERT_NE(offered, large.alternatives.end());
  EXPECT_EQ(offered->needed, small.needed);
  EXPECT_EQ(offered->exactness, "exact");
}

TEST(Episodic, LegacyModeRunsTheBackboneTwice) {
  EpisodicRun once, twice, without;
  const std::string terms = R"("epochs": 1, "loss": {"variance": 0.5})";
  const at::Tensor one = flat_weights(*once.run(terms));
  const at::Tensor other = flat_weights(*twice.run(terms + R"(, "legacy_double_forward": true)"));
  EXPECT_LT((one - other).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(twice.model->forwards, 2 * once.model->forwards);
  without.run(R"("epochs": 1, "legacy_double_forward": true)");
  EXPECT_EQ(without.model->forwards, once.model->forwards);
}

TEST(Episodic, EpisodesDependOnTheRunSeed) {
  EpisodicRun one, same, other;
  other.context.facts.seed = 2;
  const at::Tensor first = flat_weights(*one.run());
  EXPECT_TRUE(first.equal(flat_weights(*same.run())));
  EXPECT_FALSE(first.equal(flat_weights(*other.run())));
}

TEST(Episodic, LossWithoutTermsIsRejected) {
  EXPECT_REFUSED(created(kTrainEpisodic, R"({"loss": {"classification": 0}})"), kOptionConflict,
                 "/train/loss/classification");
}

TEST(Episodic, TooFewClassesAreRejectedBeforeTheRun) {
  EpisodicRun training;
  training.validation = std::make_shared<TinyDataset>(40, 2);
  EXPECT_REFUSED(training.plan(""), kTooFewSamples, "/ways", "2 classes", "needs 3");
}

TEST(Episodic, CudaGraphsGiveTheSameBits) {
  expect_same_bits_with_graphs<EpisodicRun>(
      R"("epochs": 1, "episodes_per_step": 3, "loss": {"variance": 0.5, "covariance": 0.1})");
}

}  // namespace
}  // namespace stages
