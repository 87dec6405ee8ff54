#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "runner/shared/stage/run_context.h"
#include "tests/support/test_device.h"

/// A run that records the messages of a stage. Its folder is the test's own and empty.
class RecordingContext final : public runner::RunContext {
 public:
  RecordingContext() : RunContext({.seed = 1, .recipe_hash = "recipe", .device = test_device()}) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    facts.folder = std::filesystem::path(testing::TempDir()) / "retort" /
                   (std::string(test->test_suite_name()) + "." + test->name() + "." +
                    std::to_string(::getpid()) + "." + std::to_string(count_++));
    std::filesystem::remove_all(facts.folder);
    std::filesystem::create_directories(facts.folder);
  }
  ~RecordingContext() override { std::filesystem::remove_all(facts.folder); }

  void metric(std::string_view name, double value, std::int64_t step) override {
    metrics.emplace_back(std::string(name), value, step);
  }
  void histogram(std::string_view name, std::vector<runner::HistogramBucket> buckets,
                 std::int64_t step) override {
    histograms.emplace_back(std::string(name), std::move(buckets), step);
  }
  void progress(const runner::Progress& progress) override {
    all_progress.push_back(progress);
    if (on_progress) on_progress(progress);
  }
  void say(std::string_view line) override {
    said.emplace_back(line);
    if (on_say) on_say(line);
  }
  void detail(std::string_view line) override { details.emplace_back(line); }
  void divided(const std::function<std::string()>& of_samples) override { division = of_samples(); }
  void recovered(const runner::Recovery& recovery) override { recoveries.push_back(recovery); }
  bool canceled() const override { return is_canceled; }
  bool take_save_request() override { return std::exchange(wants_save, false); }
  void resumed(std::int64_t count, std::int64_t /*step*/) override { resumed_at = count; }
  std::int64_t sync_metrics() override {
    ++flushes;
    return resumed_at.value_or(0) + static_cast<std::int64_t>(metrics.size());
  }
  void not_reused(std::string_view why) override {
    RunContext::not_reused(why);
    said.push_back("not reused: " + std::string(why));
  }

  /// The values of a metric, in order.
  std::vector<double> values(const std::string& name) const {
    std::vector<double> result;
    for (const auto& [other, value, step] : metrics) {
      if (other == name) result.push_back(value);
    }
    return result;
  }
  std::vector<std::int64_t> steps(const std::string& name) const {
    std::vector<std::int64_t> result;
    for (const auto& [other, value, step] : metrics) {
      if (other == name) result.push_back(step);
    }
    return result;
  }

  std::vector<std::tuple<std::string, double, std::int64_t>> metrics;
  std::vector<std::tuple<std::string, std::vector<runner::HistogramBucket>, std::int64_t>>
      histograms;
  std::vector<runner::Progress> all_progress;
  std::vector<std::string> said, details;
  std::string division;  // as it would be recorded
  std::vector<runner::Recovery> recoveries;
  std::function<void(const runner::Progress&)> on_progress;
  std::function<void(std::string_view)> on_say;
  runner::NodeFacts& facts = node_;
  bool is_canceled = false, wants_save = false;
  std::optional<std::int64_t> resumed_at;  // the number of metrics after which it resumed
  int flushes = 0;

 private:
  inline static int count_ = 0;
};
