#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/number_rows.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/shown_dataset.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

/// A network that returns one of the values of its "image" as its logit. Counts how many such
/// networks are alive.
struct Column : torch::nn::Module {
  explicit Column(std::int64_t column) : column(column) { ++alive; }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;
  ~Column() override { --alive; }
  const std::int64_t column;
  inline static int alive = 0, most = 0;
};

class ColumnModel final : public Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription&,
                                           std::uint64_t seed) const override {
    return std::make_shared<Column>(static_cast<std::int64_t>(seed));
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return build(data, 0);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    Column::most = std::max(Column::most, Column::alive);
    const std::int64_t column = dynamic_cast<Column&>(network).column;
    return {{"logits", inputs.at("image").slice(1, column, column + 1)}};
  }
  bool mixes_samples() const override { return false; }
};

struct EnsembleRun {
  EnsembleRun() {
    const auto model = std::make_shared<ColumnModel>();
    const std::vector<std::string> names = {"a", "b", "c"};
    for (std::uint64_t i = 0; i < 3; ++i) {
      auto checkpoint = std::make_shared<Checkpoint>();
      checkpoint->model = model;
      checkpoint->classes = {names[i == 2 ? 1 : 0], names[i == 0 ? 1 : 2]};
      checkpoint->pair_of = 3;
      checkpoint->validation = {{"accuracy", 0.9}};
      checkpoint->load = [model, i] { return model->build({}, i); };
      networks.push_back(std::move(checkpoint));
    }
    Column::most = 0;
  }
  std::unique_ptr<runner::Stage> stage(const std::string& options) const {
    return stage_of(kEvaluatePairwiseEnsemble, options);
  }
  runner::Inputs inputs() const {
    return runner::Inputs({{"test", {test}}, {"checkpoint", {networks.begin(), networks.end()}}});
  }
  void run(const std::string& options = "{}") {
    outputs = stage(options)->run(inputs(), context);
    record = json::parse(file("metrics.json"));
  }
  runner::Diagnostics error(const std::string& options = "{}") {
    return refusals_of([&] { run(options); });
  }
  std::string file(const std::string& name) const {
    std::ifstream stream(context.node().folder / name);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  /// Data with the outputs of the networks 0-1, 0-2 and 1-2 as its "image".
  std::shared_ptr<NumberRows> test = std::make_shared<NumberRows>(
      torch::tensor({{-3.0, -2.0, 1.0}, {2.0, 0.5, -1.0}, {-1.0, 2.0, 3.0}, {-1.0, 2.0, -1.0}},
                    at::kFloat),
      std::vector<std::int64_t>{0, 1, 2, 1}, std::vector<std::string>{"a", "b", "c"});
  std::vector<std::shared_ptr<Checkpoint>> networks;
  RecordingContext context;
  runner::Outputs outputs;
  json record;
};

TEST(PairwiseEnsemble, PredictionCombinesTheVotesOfAllNetworks) {
  EnsembleRun run;
  run.run();
  // In the last row, all three grades tie. The most severe one wins, which is wrong.
  EXPECT_EQ(run.record.at("top1"), 0.75);
  EXPECT_EQ(run.record.at("confusion_matrix"), json::parse("[[1,0,0],[0,1,1],[0,0,1]]"));
  EXPECT_EQ(run.record.at("tied"), 1);
  EXPECT_EQ(run.record.at("decided_by"), "majority");
  EXPECT_EQ(run.record.at("pairs").at(0).at("accuracy"), 2.0 / 3);
  EXPECT_EQ(run.record.at("grading").at("numbers").at("sensitivity/b"), 0.5);
  EXPECT_EQ(run.context.values("evaluate/majority_accuracy"), std::vector<double>{0.75});
  EXPECT_THAT(run.context.said, Contains("majority decides: 1 of 4 votes are tied"));
  EXPECT_THAT(run.file("predictions.csv"), HasSubstr("\nimage3,b,c,true,0,1,1,1,"));
  EXPECT_THAT(run.file("pair_logits.csv"), HasSubstr("image1,b,2,0.5,-1\n"));
}

TEST(PairwiseEnsemble, EachModelIsMeasuredSeparately) {
  EnsembleRun alone;
  alone.run();
  EXPECT_FALSE(alone.record.contains("models"));
  EnsembleRun run;
  const auto other = std::make_shared<ColumnModel>();
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto checkpoint = std::make_shared<Checkpoint>(*run.networks[i]);
    checkpoint->model = other;
    // In the other model, the network of b and c outputs what the network of a and c should.
    checkpoint->load = [other, i] { return other->build({}, i == 2 ? 1 : i); };
    run.networks.push_back(std::move(checkpoint));
  }
  run.run();
  const json& models = run.record.at("models");
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models.at(0).at("model"), "0");
  EXPECT_EQ(models.at(0).at("accuracy"), 0.75);
  EXPECT_EQ(models.at(0).at("tied"), 1);
  EXPECT_EQ(models.at(0).at("quadratic_kappa"),
            alone.record.at("rules").at("majority").at("quadratic_kappa"));
  // Model 1 predicts a, c, c, c: in the second row, c also wins the votes of b.
  EXPECT_EQ(models.at(1).at("set"), 1);
  EXPECT_EQ(models.at(1).at("accuracy"), 0.5);
  EXPECT_EQ(models.at(1).at("tied"), 0);
  EXPECT_EQ(run.context.values("evaluate/accuracy/0"), std::vector<double>{0.75});
  EXPECT_EQ(run.context.values("evaluate/accuracy/1"), std::vector<double>{0.5});
  EXPECT_EQ(run.context.values("evaluate/quadratic_kappa/1").size(), 1u);
}

TEST(PairwiseEnsemble, RemarkThatAppliesToAllNetworksIsReportedOnce) {
  EnsembleRun run;
  for (const auto& network : run.networks) network->transform = "resized to 8";
  run.run();
  const auto count = std::ranges::count_if(run.context.said, [](const std::string& line) {
    return line.starts_with("the test set is preprocessed differently from the training data");
  });
  EXPECT_EQ(count, 1);
}

TEST(PairwiseEnsemble, OnlyOneNetworkIsInMemoryAtATime) {
  EnsembleRun run;
  run.run();
  EXPECT_EQ(Column::most, 1);
  EXPECT_EQ(Column::alive, 0);
}

TEST(PairwiseEnsemble, EveryRuleIsMeasuredOnTheSameLogits) {
  EnsembleRun run;
  run.run();
  for (const char* rule :
       {"majority", "soft", "accuracy_weighted", "confidence_weighted", "pairwise_coupling"})
    EXPECT_TRUE(run.record.at("rules").contains(rule)) << rule;
  EXPECT_EQ(run.record.at("rules").at("soft").at("accuracy"), 0.75);
  EXPECT_FALSE(run.record.at("rules").contains("seed_weighted"));
  EnsembleRun one;
  one.run(R"({"votes": ["soft"], "decide_by": "pairwise_coupling"})");
  EXPECT_EQ(one.record.at("rules").size(), 2u);
  EXPECT_EQ(one.record.at("decided_by"), "pairwise_coupling");
}

TEST(PairwiseEnsemble, TieBreakAndThresholdAreUsed) {
  EnsembleRun mild;
  mild.run(R"({"tie_break": "lowest"})");
  EXPECT_EQ(mild.record.at("confusion_matrix"), json::parse("[[1,0,0],[1,1,0],[0,0,1]]"));
  EnsembleRun sure;
  sure.run(R"({"threshold": 0.7})");  // the third sample's logit of 0.5 is a probability of 0.62
  EXPECT_EQ(sure.record.at("pairs").at(1).at("accuracy"), 1);
  EXPECT_THAT(sure.file("predictions.csv"), HasSubstr("image1,b,b,false"));
}

TEST(PairwiseEnsemble, AbstentionsAreCounted) {
  EnsembleRun run;
  run.run(R"({"abstain_below": 0.1})");
  EXPECT_EQ(run.record.at("abstained"), 1);
  EXPECT_EQ(run.record.at("samples"), 3);
  EXPECT_EQ(run.record.at("top1"), 1);
  EXPECT_THAT(run.file("predictions.csv"), HasSubstr("\nimage3,b,,true,0,"));
  EXPECT_REFUSED(run.error(R"({"abstain_below": 1.0})"), kTooFewSamples, "/abstain_below",
                 "every sample");
}

TEST(PairwiseEnsemble, RuleThatNeedsAccuraciesIsOmittedWithoutThem) {
  EnsembleRun run;
  run.networks[1]->validation.clear();
  run.run();
  EXPECT_FALSE(run.record.at("rules").contains("accuracy_weighted"));
  EXPECT_THAT(run.context.said,
              Contains("accuracy_weighted weights networks by their accuracy on validation data, "
                       "but the accuracy of 'a-c' was not measured: it is left out"));
  EXPECT_REFUSED(run.error(R"({"decide_by": "accuracy_weighted"})"), kOptionConflict, "/decide_by");
}

TEST(PairwiseEnsemble, InvalidOptionsAreRejectedBeforeTheRun) {
  EnsembleRun run;
  PlanningContext planning;
  EXPECT_REFUSED(run.error(R"({"votes": ["seed_weighted"]})"), kOptionConflict, "/votes",
                 "seed_weighted", "five grades", "has 3");
  EXPECT_REFUSED(run.error(R"({"referable_from": 3})"), kOptionConflict, "/referable_from", "is 3",
                 "0 to 2");
  run.networks.pop_back();
  EXPECT_THROW(run.stage("{}")->plan(run.inputs(), planning), runner::StageError);
  EXPECT_REFUSED(run.error(), kLabelOutOfRange, "", "'b-c'");
}

TEST(PairwiseEnsemble, ExamplesShowTheVotes) {
  EnsembleRun run;
  run.stage(R"({"examples": 2})")
      ->run(runner::Inputs({{"test", {std::make_shared<ShownSamples>(run.test)}},
                            {"checkpoint", {run.networks.begin(), run.networks.end()}}}),
            run.context);
  const json examples = written_examples(run.context.node().folder);
  EXPECT_THAT(names_of_group(examples, "most confident wrong"), testing::ElementsAre("image3"));
  EXPECT_THAT(names_of_group(examples, "most confident correct"), testing::SizeIs(2));
  EXPECT_EQ(examples[0]["tied"], true);
  EXPECT_EQ(examples[0]["votes"], json::parse(R"([{"class": "a", "score": 1},
      {"class": "b", "score": 1}, {"class": "c", "score": 1}])"));
}

TEST(PairwiseEnsemble, ExamplesSkipSamplesWithoutAPrediction) {
  EnsembleRun run;
  run.test = std::make_shared<NumberRows>(
      torch::tensor({{-1.0, 2.0, -1.0}, {-3.0, -2.0, 1.0}, {2.0, 0.5, -1.0}, {-1.0, 2.0, 3.0}},
                    at::kFloat),
      std::vector<std::int64_t>{1, 0, 1, 2}, std::vector<std::string>{"a", "b", "c"});
  run.stage(R"({"examples": 8, "abstain_below": 0.2})")
      ->run(runner::Inputs({{"test", {std::make_shared<ShownSamples>(run.test)}},
                            {"checkpoint", {run.networks.begin(), run.networks.end()}}}),
            run.context);
  const json examples = written_examples(run.context.node().folder);
  EXPECT_FALSE(examples.empty());
  for (const auto& one : examples) {
    EXPECT_NE(one["name"], "image0") << "its vote is tied";
    EXPECT_EQ(one["votes"][0]["class"], one["predicted"]);
    EXPECT_EQ(one["votes"][0]["score"], 2);
  }
}

TEST(PairwiseEnsemble, PlanCoversOneNetwork) {
  EnsembleRun run;
  PlanningContext planning;
  const auto planned = run.stage("{}")->plan(run.inputs(), planning);
  ASSERT_TRUE(planned && planning.planned);
  EXPECT_EQ(runner::Inputs({{"predictions", {planned->at("predictions")}}})
                .get<Predictions>("predictions")
                ->scores.sizes(),
            (std::vector<std::int64_t>{4, 3}));
}

}  // namespace
}  // namespace stages
