// End-to-end tests of ordinal classifiers (CORAL, CORN).

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/killed_run.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using testing::HasSubstr;

class OrdinalRuns : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make fundus_folders --out eyes --per-class 12 --size 48 --seed 5 -q", folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    for (const char* loss : {"coral", "corn"}) {
      const Ended ran = retort("run diabetic_retinopathy_ordinal run.dir=" + std::string(loss) +
                                   " train/loss=" + loss + " " + kSmall,
                               folder_.path());
      ASSERT_EQ(ran.exit, 0) << ran.err;
    }
    folder_.keep();
  }
  nlohmann::json json(const std::string& file) const {
    return nlohmann::json::parse(file_text(folder_ / file));
  }
  /// Returns the errors of validating the recipe with further options.
  std::string refused(const std::string& options) const {
    const Ended ended =
        retort("validate diabetic_retinopathy_ordinal " + kSmall + options, folder_.path());
    EXPECT_EQ(ended.exit, 78) << options;
    return ended.err;
  }

  inline static const std::string kSmall =
      "data.root=eyes data.image_size=32 data.loader.workers=0 data.loader.drop_last=false "
      "model.weights=null 'model.layers=[1,1,1,1]' 'model.head.widths=[8]' memory.precision=fp32 "
      "train.batch_size=15 train.epochs=2 ";
  SharedFolder folder_;
};

TEST_F(OrdinalRuns, EvaluationReportsKappaAndAllProbabilities) {
  for (const char* loss : {"coral", "corn"}) {
    const nlohmann::json metrics = json(std::string(loss) + "/nodes/evaluate/metrics.json");
    EXPECT_TRUE(metrics.contains("quadratic_kappa_argmax")) << loss;
    EXPECT_TRUE(metrics.at("log_loss").is_number()) << loss;
    EXPECT_FALSE(std::filesystem::is_empty(folder_ / loss / "nodes/evaluate/examples")) << loss;
    const std::string predictions =
        file_text(folder_ / loss / "nodes" / "evaluate" / "predictions.csv");
    EXPECT_THAT(predictions,
                testing::StartsWith("name,grade,prediction,p_No DR,p_Mild NPDR,p_Moderate NPDR,"
                                    "p_Severe NPDR,p_PDR"));
  }
}

TEST_F(OrdinalRuns, ResumedRunGivesTheSameResults) {
  expect_same_evaluation_when_resumed(folder_.path(), "corn",
                                      "diabetic_retinopathy_ordinal " + kSmall, 3);
}

TEST_F(OrdinalRuns, PredictAndEvaluateGiveTheSameProbabilities) {
  const std::string predictions = file_text(folder_ / "coral/nodes/evaluate/predictions.csv");
  const std::size_t line = predictions.find('\n') + 1, comma = predictions.find(',', line);
  const std::string image = predictions.substr(line, comma - line);
  const Ended ended = retort("predict coral --json --top 5 eyes/" + image, folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the first class at which the probabilities add up to half"));
  const std::string row = predictions.substr(comma, predictions.find('\n', line) - comma);
  double sum = 0;
  const auto item = nlohmann::json::parse(ended.out.substr(0, ended.out.find('\n')));
  EXPECT_TRUE(item.contains("prediction"));
  for (const auto& one : item.at("classes")) {
    sum += one.at("probability").get<double>();
    EXPECT_THAT(row, HasSubstr(one.at("probability").dump().substr(0, 6)));
  }
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST_F(OrdinalRuns, ExportedHeadHasOneOutputFewerThanClasses) {
  const Ended ended = retort("export coral --out exported", folder_.path());
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const std::string readme = file_text(folder_ / "exported/README.md");
  EXPECT_THAT(readme, HasSubstr("torch.nn.Linear(8, 4)"));
  EXPECT_THAT(readme, HasSubstr("above = logits.double().sigmoid().sort(-1, descending=True)"));
  EXPECT_EQ(json("exported/classes.json").size(), 5U);
}

TEST_F(OrdinalRuns, OptionsThatIgnoreTheOrderAreRejected) {
  EXPECT_THAT(refused("train.class_weights=balanced"), HasSubstr("importance_weights"));
  EXPECT_THAT(refused("train.label_smoothing=0.1"), HasSubstr("label_smoothing"));
  EXPECT_THAT(refused("train.mixup=0.2"), HasSubstr("mixup and cutmix"));
  const Ended pair =
      retort("validate diabetic_retinopathy train/loss=corn model.weights=null data.root=eyes",
             folder_.path());
  EXPECT_EQ(pair.exit, 78);
  EXPECT_THAT(pair.err, HasSubstr("no order"));
}

TEST_F(OrdinalRuns, UnorderedClassesAreRejected) {
  const Ended made = retort(
      "data make image_folder --out photos --classes 3 --per-class 8 --size 32 -q", folder_.path());
  ASSERT_EQ(made.exit, 0) << made.err;
  const std::string plan =
      "plan classify data.root=photos data.image_size=24 train.loss.kind=corn "
      "train.label_smoothing=0";
  const Ended unknown = retort(plan, folder_.path());
  EXPECT_NE(unknown.exit, 0);
  EXPECT_THAT(unknown.err, HasSubstr("the order of the classes is unknown"));
}

TEST_F(OrdinalRuns, WarmStartWithAHeadOfAnotherShapeIsRejected) {
  const Ended ended =
      retort("plan diabetic_retinopathy_ordinal train/loss=coral train.warm_start=corn " + kSmall,
             folder_.path());
  EXPECT_NE(ended.exit, 0);
  EXPECT_THAT(ended.err, HasSubstr("do not match the network"));
}

}  // namespace
