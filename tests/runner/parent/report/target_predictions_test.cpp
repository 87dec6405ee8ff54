#include "runner/parent/report/target_predictions.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

class TargetPredictionsTest : public testing::Test {
 protected:
  Result<std::vector<TargetPredictions>> read(const std::string& text) const {
    const std::filesystem::path folder = folder_ / "nodes/evaluate";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "predictions.csv") << text;
    return read_target_predictions(folder_.path(), "evaluate");
  }
  TemporaryFolder folder_;
};

TEST_F(TargetPredictionsTest, OneTargetHasNoName) {
  const auto targets = read("name,target,prediction,residual\na.jpg,2,1.5,0.5\nb.jpg,-1,0,-1\n");
  ASSERT_TRUE(targets);
  ASSERT_EQ(targets->size(), 1u);
  EXPECT_EQ(targets->front().target, "");
  EXPECT_EQ(targets->front().pairs[1].x, -1);
  EXPECT_EQ(targets->front().pairs[0].y, 1.5);
  const std::string svg = draw_predictions(*targets, "ages").svg();
  EXPECT_THAT(svg, HasSubstr("Predictions of ages"));
  EXPECT_THAT(svg, HasSubstr("residuals"));
}

TEST_F(TargetPredictionsTest, SeveralTargetsAreNamedByTheirColumns) {
  const auto targets = read(
      "name,target_a,prediction_a,residual_a,target_b,prediction_b,residual_b\nx,1,2,-1,3,4,-1\n");
  ASSERT_TRUE(targets);
  EXPECT_THAT(*targets, ElementsAre(Field(&TargetPredictions::target, "a"),
                                    Field(&TargetPredictions::target, "b")));
}

TEST_F(TargetPredictionsTest, ClassesAreNotTargets) {
  EXPECT_THAT(*read("name,label,predicted\na.jpg,cat,dog\n"), IsEmpty());
  EXPECT_THAT(*read("name,output\na.jpg,1\n"), IsEmpty());
  EXPECT_THAT(*read_target_predictions(folder_.path(), "other"), IsEmpty());
}

TEST_F(TargetPredictionsTest, DamageIsReported) {
  for (const char* text :
       {"", "name,target,prediction\na.jpg,2\n", "name,target,prediction\na.jpg,2,nan\n"}) {
    const auto targets = read(text);
    ASSERT_FALSE(targets);
    EXPECT_EQ(targets.errors().front().code, ErrorCode::kDamagedRecord);
    EXPECT_THAT(targets.errors().front().message, HasSubstr("predictions.csv"));
  }
}

}  // namespace
}  // namespace runner
