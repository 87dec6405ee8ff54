#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "runner/stage/run_context.h"

/// A run that remembers what a stage said. Its folder is the test's own and empty.
class RecordingContext final : public runner::RunContext {
 public:
  RecordingContext() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / "retort" /
              (std::string(test->test_suite_name()) + "." + test->name() + "." + std::to_string(::getpid()) + "." +
               std::to_string(count_++));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~RecordingContext() override { std::filesystem::remove_all(folder_); }

  void metric(std::string_view name, double value, std::int64_t step) override {
    metrics.emplace_back(std::string(name), value, step);
  }
  void progress(const runner::Progress& progress) override {
    all_progress.push_back(progress);
    if (on_progress) on_progress(progress);
  }
  void say(std::string_view line) override { said.emplace_back(line); }
  bool cancelled() const override { return is_cancelled; }
  bool take_save_request() override { return std::exchange(wants_save, false); }
  bool resuming() const override { return is_resuming; }
  void resumed(std::int64_t count) override { resumed_at = count; }
  std::int64_t flush() override {
    ++flushes;
    return resumed_at.value_or(0) + static_cast<std::int64_t>(metrics.size());
  }
  std::string_view recipe_hash() const override { return "recipe"; }
  std::uint64_t seed() const override { return seed_value; }
  std::string_view device() const override { return "cpu"; }
  const std::filesystem::path& folder() const override { return folder_; }
  std::optional<runner::TrainedWeights> trained() const override { return trained_weights; }
  bool reuses() const override { return is_reusing; }
  void not_reused(std::string_view why) override {
    is_reusing = false;
    trained_weights.reset();
    said.push_back("not reused: " + std::string(why));
  }
  bool wants(std::string_view output) const override { return !unwanted.contains(std::string(output)); }
  bool smoke() const override { return is_smoke; }
  runner::Observer* observer() const override { return observer_value; }

  /// The values of a metric in the order in which they came.
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
  std::vector<runner::Progress> all_progress;
  std::vector<std::string> said;
  std::function<void(const runner::Progress&)> on_progress;
  bool is_cancelled = false, is_smoke = false, is_resuming = false, wants_save = false, is_reusing = false;
  std::set<std::string> unwanted;          // outputs that nobody takes
  std::optional<std::int64_t> resumed_at;  // after so many metrics
  std::optional<runner::TrainedWeights> trained_weights;
  int flushes = 0;
  std::uint64_t seed_value = 1;
  runner::Observer* observer_value = nullptr;

 private:
  inline static int count_ = 0;
  std::filesystem::path folder_;
};
