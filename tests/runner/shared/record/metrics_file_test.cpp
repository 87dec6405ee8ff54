#include "runner/shared/record/metrics_file.h"

#include <bit>
#include <cmath>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/fault.h"
#include "tests/support/power_cut_storage.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;

class MetricsFileTest : public testing::Test {
 protected:
  void write(std::initializer_list<NodeMetric> metrics) {
    MetricsFile file = MetricsFile::make(path(), disk());
    double time = 0;
    for (const NodeMetric& metric : metrics) file.append(metric, time += 0.5);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    MetricsFile file = MetricsFile::reopen(path(), disk());
    for (const auto& [metric, time] : file.read())
      result.push_back(metric.node + metric.name + std::to_string(metric.step));
    return result;
  }
  std::filesystem::path path() const { return folder_.path() / "metrics.jsonl"; }
  TemporaryFolder folder_;
};

TEST_F(MetricsFileTest, ReadsBackWhatItWrote) {
  write({{"a", "x", 0.1, 1}, {"a", "y", NAN, 2}});
  const MetricsFile file = MetricsFile::reopen(path(), disk());
  const auto metrics = file.read();
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].metric.value, 0.1);
  EXPECT_EQ(metrics[0].time, 0.5);
  EXPECT_TRUE(std::isnan(metrics[1].metric.value));
  EXPECT_EQ(last_measured(path()), 1);
}

TEST_F(MetricsFileTest, RewindingKeepsTheFirstMetricsOfANode) {
  write({{"a", "x", 1, 1}, {"b", "x", 1, 9}, {"a", "x", 1, 2}, {"a", "x", 1, 3}});
  MetricsFile file = MetricsFile::reopen(path(), disk());
  EXPECT_EQ(file.rewind("a", 2).size(), 2u);
  file.append({"a", "x", 1, 33}, 7);
  EXPECT_THAT(names(), ElementsAre("ax1", "bx9", "ax2", "ax33"));
  EXPECT_TRUE(file.rewind("a", 0).empty());
  EXPECT_THAT(names(), ElementsAre("bx9"));
}

TEST_F(MetricsFileTest, FlushedMetricsSurviveAPowerCut) {
  PowerCutStorage storage(folder_.path());
  MetricsFile file = MetricsFile::make(path(), storage);
  sync_folder(folder_.path(), storage);
  file.append({"a", "x", 1, 1}, 0.5);
  file.append({"a", "x", 1, 2}, 1);
  file.sync();
  file.append({"a", "x", 1, 3}, 1.5);
  const TemporaryFolder left;
  storage.leave(left.path());
  EXPECT_EQ(read_metrics(left / "metrics.jsonl").lines.size(), 2u);
}

TEST_F(MetricsFileTest, PowerCutDuringARewindLeavesTheOldOrTheNewFile) {
  write({{"a", "x", 1, 1}, {"a", "x", 1, 2}, {"a", "x", 1, 3}});
  PowerCutStorage storage(folder_.path());
  storage.after_each_call = [&] {
    const TemporaryFolder left;
    storage.leave(left.path());
    const auto lines = read_metrics(left / "metrics.jsonl").lines.size();
    EXPECT_TRUE(lines == 3 || lines == 1) << lines;
  };
  MetricsFile::reopen(path(), storage).rewind("a", 1);
  const TemporaryFolder left;
  storage.leave(left.path());
  EXPECT_EQ(read_metrics(left / "metrics.jsonl").lines.size(), 1u);
}

TEST_F(MetricsFileTest, TruncatedLineIsDropped) {
  write({{"a", "x", 1, 1}});
  std::ofstream(path(), std::ios::app) << R"({"node":"a","name":"x","va)";
  MetricsFile::reopen(path(), disk()).append({"a", "x", 1, 2}, 3);
  EXPECT_EQ(read_metrics(path()).damaged, 0u);
  EXPECT_THAT(names(), ElementsAre("ax1", "ax2"));
}

TEST_F(MetricsFileTest, DamagedLinesAreCountedExceptATruncatedOne) {
  write({{"a", "x", 1, 1}});
  std::ofstream(path(), std::ios::app) << "no metric\n"
                                       << R"({"node":"a","name":"x","va)";
  const RecordedMetrics metrics = read_metrics(path());
  EXPECT_EQ(metrics.lines.size(), 1u);
  EXPECT_EQ(metrics.damaged, 1u);
  EXPECT_TRUE(read_metrics(folder_.path() / "none").lines.empty());
}

/// Returns what is read from a line, with the bits of its numbers; "none" if it is not a metric.
std::string all_read_from(const std::string& line) {
  const auto read = metric_line(line);
  if (!read) return "none";
  const auto& [metric, time] = *read;
  std::string all = metric.node + "|" + metric.name;
  for (const double number : {metric.value, time})
    all += "|" + std::to_string(std::bit_cast<std::uint64_t>(number));
  return all + "|" + std::to_string(metric.step);
}

/// Expects that the line reads the same with a space after its first character, which leaves it to
/// the JSON parser.
void expect_read_as_json(const std::string& line) {
  EXPECT_EQ(all_read_from(line), all_read_from(line.substr(0, 1) + " " +
                                               line.substr(std::min<std::size_t>(1, line.size()))))
      << line;
}

TEST(MetricLineTest, ReadsUnusualNumbersLikeAJsonParser) {
  std::vector<std::string> numbers = {"", "1 ", " 1"};
  std::istringstream words(
      "0 1 -0 -0.0 -0e5 -7 0.1 1e5 1E-5 1e+5 2.5e-3 5e-324 1e-400 1e999 -1e999 "
      "1.7976931348623157e308 0.30000000000000004 9007199254740993 9223372036854775807 "
      "-9223372036854775808 9223372036854775808 18446744073709551615 18446744073709551616 "
      "01 -01 00 1. 1.e5 .5 +1 1e 1e+ - 0x10 1f inf nan NaN Infinity null true "
      "\"nan\" \"inf\" \"-inf\" \"1\" [1] {}");
  for (std::string word; words >> word;) numbers.push_back(word);
  for (const std::string& text : numbers) {
    expect_read_as_json(R"({"node":"a","name":"x","value":)" + text + R"(,"step":3,"time":0.5})");
    expect_read_as_json(R"({"node":"a","name":"x","value":2.5,"step":)" + text + R"(,"time":0.5})");
    expect_read_as_json(R"({"node":"a","name":"x","value":2.5,"step":3,"time":)" + text + "}");
  }
}

TEST(MetricLineTest, ReadsUnusualNamesLikeAJsonParser) {
  for (const char* name : {"", "a b", "~", "\x7f", "\xc3\xa4", "\xff", "\t", R"(\")", R"(\\)",
                           R"(\n)", R"(\u00e4)", R"(\q)", R"(")", R"(\)"}) {
    const std::string text = name;
    expect_read_as_json(R"({"node":")" + text + R"(","name":"x","value":1,"step":3,"time":0.5})");
    expect_read_as_json(R"({"node":"a","name":")" + text + R"(","value":1,"step":3,"time":0.5})");
  }
}

TEST(MetricLineTest, ReadsTruncatedAndExtendedLinesLikeAJsonParser) {
  const std::string line = R"({"node":"a","name":"x","value":0.25,"step":31,"time":1.5e2})";
  EXPECT_NE(all_read_from(line), "none");
  for (std::size_t size = 1; size <= line.size(); ++size) expect_read_as_json(line.substr(0, size));
  for (const char* more : {"\r", " ", "}", ",", "x"}) expect_read_as_json(line + more);
  expect_read_as_json(R"({"node":"a","node":"b","name":"x","value":1,"step":3,"time":0.5})");
  expect_read_as_json(R"({"node":"a","name":"x","value":1,"step":3,"time":0.5,"more":1})");
  expect_read_as_json(R"({"node":"a","name":"x","step":3,"value":1,"time":0.5})");
}

TEST_F(MetricsFileTest, FailedRewindLeavesTheFileUnchanged) {
  for (const auto point :
       {Fault::Point::kCreate, Fault::Point::kWrite, Fault::Point::kSync, Fault::Point::kRename}) {
    std::filesystem::remove(path());
    write({{"a", "x", 1, 1}, {"a", "x", 1, 2}});
    FaultyStorage faulty(disk(), {point, 1, Fault::Action::kFail});
    EXPECT_THROW(MetricsFile::reopen(path(), faulty), WriteError);
    EXPECT_THAT(names(), ElementsAre("ax1", "ax2"));
    EXPECT_FALSE(std::filesystem::exists(path().string() + ".part"));
  }
}

}  // namespace
}  // namespace runner
