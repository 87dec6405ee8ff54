#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/stage/plan_context.h"

/// A dry run that remembers what a stage planned.
class PlanningContext final : public runner::PlanContext {
 public:
  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress&) override {}
  void say(std::string_view line) override { said.emplace_back(line); }
  bool cancelled() const override { return false; }
  bool take_save_request() override { return false; }
  bool resuming() const override { return false; }
  void resumed(std::int64_t) override {}
  std::int64_t flush() override { return 0; }
  std::uint64_t seed() const override { return 1; }
  std::string_view recipe_hash() const override { return "recipe"; }
  std::string_view device() const override { return device_value; }
  const std::filesystem::path& folder() const override { return no_folder_; }
  std::optional<runner::TrainedWeights> trained() const override { return trained_weights; }
  bool smoke() const override { return false; }
  std::string_view device_model() const override { return model; }
  std::optional<runner::NamedBytes> budget() const override { return budget_value; }
  bool wants_alternatives() const override { return alternatives; }
  bool wants_certificate() const override { return certifies; }
  void plan(runner::MemoryPlan plan) override { planned = std::move(plan); }
  void certify(runner::Certificate certificate) override { certified = std::move(certificate); }

  std::string device_value = "cpu", model;
  std::optional<runner::NamedBytes> budget_value;
  std::optional<runner::TrainedWeights> trained_weights;
  bool alternatives = false, certifies = false;
  std::vector<std::string> said;
  std::optional<runner::MemoryPlan> planned;
  std::optional<runner::Certificate> certified;

 private:
  const std::filesystem::path no_folder_;
};
