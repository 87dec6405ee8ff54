#include "runner/parent/sweep/run_trials.h"

#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string line(const std::string& node, const std::string& name, const std::string& value) {
  return R"({"node":")" + node + R"(","name":")" + name + R"(","value":)" + value +
         R"(,"step":1,"time":0})" + "\n";
}

class MetricTailTest : public testing::Test {
 protected:
  void add(const std::string& text) const { std::ofstream(path(), std::ios::app) << text; }
  std::filesystem::path path() const { return folder_ / "metrics.jsonl"; }
  TemporaryFolder folder_;
};

TEST_F(MetricTailTest, FollowsAGrowingFile) {
  MetricTail tail(path(), "validation/accuracy");
  EXPECT_THAT(tail.values(), IsEmpty());
  add(line("train", "loss", "1") + line("train", "validation/accuracy", "0.5"));
  EXPECT_THAT(tail.values(), ElementsAre(0.5));
  const std::string next = line("other", "validation/accuracy", "0.75");
  add(next.substr(0, 30));
  EXPECT_THAT(tail.values(), ElementsAre(0.5)) << "an incomplete line does not count";
  add(next.substr(30) + "no json validation/accuracy\n");
  EXPECT_THAT(tail.values(), ElementsAre(0.5, 0.75));
}

TEST_F(MetricTailTest, ReplacedFileIsReadAgain) {
  add(line("train", "loss", "1") + line("train", "loss", "2"));
  MetricTail tail(path(), "loss");
  EXPECT_THAT(tail.values(), ElementsAre(1, 2));
  std::filesystem::rename(path(), folder_ / "old");
  add(line("train", "loss", "3"));
  EXPECT_THAT(tail.values(), ElementsAre(3));
}

TEST_F(MetricTailTest, NodeCanBeNamed) {
  add(line("train.0", "loss", "1") + line("train.1", "loss", "2") +
      line("train.1", "val_loss", "3"));
  EXPECT_THAT(MetricTail(path(), "train.1:loss").values(), ElementsAre(2));
  EXPECT_THAT(MetricTail(path(), "loss").values(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace runner
