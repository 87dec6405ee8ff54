#include "runner/tracker/mlflow_state.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

class MlflowStateTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "mlflow.json"; }
  TemporaryFolder folder_;
};

TEST_F(MlflowStateTest, EachServerHasItsOwnState) {
  MlflowState state{.server = "http://a", .key = "k", .began = 1700000000000, .run = "r"};
  state.sent["train"].add({{"train", "train/loss", 0.5, 1}, 2});
  write_mlflow_state(path(), state);
  write_mlflow_state(path(), {.server = "http://b", .key = "k"});
  const auto read = read_mlflow_state(path(), "http://a");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->run, "r");
  EXPECT_EQ(read->began, 1700000000000);
  EXPECT_EQ(read->sent, state.sent);
  EXPECT_EQ(read_mlflow_state(path(), "http://b")->run, "");
  EXPECT_FALSE(read_mlflow_state(path(), "http://c"));
}

TEST_F(MlflowStateTest, DamagedFileIsIgnored) {
  EXPECT_FALSE(read_mlflow_state(path(), "http://a"));
  std::ofstream(path()) << R"({"schema": 1, "runs": [{"server": 5}]})";
  EXPECT_FALSE(read_mlflow_state(path(), "http://a"));
}

TEST_F(MlflowStateTest, DigestDependsOnValuesNotTimes) {
  SentMetrics one, later, other;
  one.add({{"train", "train/loss", 0.5, 1}, 2});
  later.add({{"train", "train/loss", 0.5, 1}, 7});
  other.add({{"train", "train/loss", 0.25, 1}, 2});
  EXPECT_EQ(one, later);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace runner
