#pragma once

#include <cstdint>
#include <filesystem>

namespace runner {

/// The layout of a sweep's folder, for everything that writes or reads there.
///
///   sweep.jsonl             the journal: what the trials are, and how they went (sweep_journal.h)
///   recipes/3.yaml          the resolved recipe of trial 3, as it was when the sweep began
///   3/                      the run of trial 3; 3.attempt-1/ one before it that could not be continued
///   results.csv, results.json   the table at the end
class SweepLayout {
 public:
  explicit SweepLayout(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path journal() const { return folder_ / "sweep.jsonl"; }
  std::filesystem::path recipes() const { return folder_ / "recipes"; }
  std::filesystem::path recipe(std::uint64_t trial) const { return recipes() / (std::to_string(trial) + ".yaml"); }
  std::filesystem::path run(std::uint64_t trial) const { return folder_ / std::to_string(trial); }
  std::filesystem::path set_aside(std::uint64_t trial, int attempt) const {
    return folder_ / (std::to_string(trial) + ".attempt-" + std::to_string(attempt));
  }
  std::filesystem::path results_csv() const { return folder_ / "results.csv"; }
  std::filesystem::path results_json() const { return folder_ / "results.json"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace runner
