#include "runner/parent/registry/run_curves.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

std::string line(const std::string& name, const std::string& value, int step) {
  return R"({"node": "train", "name": ")" + name + R"(", "value": )" + value + R"(, "step": )" +
         std::to_string(step) + R"(, "time": 1.0})" + "\n";
}

TEST(RunCurves, ShowFirstAndLastValuesAndASparkline) {
  const TemporaryFolder folder;
  std::string lines = line("evaluate/top1", "0.5", 4) + line("memory/peak", "1", 1) +
                      line("memory/peak", "2", 2) + line("train/rate", "5", 1);
  for (int step = 1; step <= 3; ++step) lines += line("train/loss", std::to_string(4 - step), step);
  folder.write("metrics.jsonl",
               lines + line("train/loss", "\"nan\"", 4) + line("train/rate", "5", 2));
  EXPECT_EQ(curves_text(folder.path(), {.width = 80, .has_blocks = true}),
            "metric      node   first  last  curve\n"
            "train/rate  train      5     5  ██\n"
            "train/loss  train      3     1  █▅▁\n");
}

TEST(RunCurves, AreEmptyWithoutMetrics) {
  const TemporaryFolder folder;
  EXPECT_EQ(curves_text(folder.path(), {.width = 80, .has_blocks = true}), "");
}

}  // namespace
}  // namespace runner
