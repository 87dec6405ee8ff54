#include "runner/shared/stage/run_layout.h"

#include <string>

namespace runner {
namespace {

constexpr std::string_view kFinished = "finished.json";
constexpr std::string_view kReused = "reused.json";

}  // namespace

namespace fs = std::filesystem;

fs::path RunLayout::records() const { return folder_ / ".retort"; }
fs::path RunLayout::mark() const { return records() / RunRecord::kMark; }
fs::path RunLayout::source() const { return records() / RunRecord::kSource; }
fs::path RunLayout::resume(int number) const {
  return records() / ("resume-" + std::to_string(number));
}
fs::path RunLayout::mlflow() const { return records() / "mlflow.json"; }
fs::path RunLayout::metrics() const { return folder_ / "metrics.jsonl"; }
fs::path RunLayout::histograms() const { return folder_ / "histograms.jsonl"; }
fs::path RunLayout::log() const { return folder_ / "log.txt"; }
fs::path RunLayout::summary() const { return folder_ / "summary.json"; }
fs::path RunLayout::tags() const { return folder_ / "tags.json"; }
fs::path RunLayout::tensorboard() const { return folder_ / "tensorboard"; }
fs::path RunLayout::analysis() const { return folder_ / "analysis"; }
fs::path RunLayout::report(bool is_html) const {
  return folder_ / (is_html ? "report.html" : "report.md");
}
fs::path RunLayout::exported(std::string_view name) const { return folder_ / "export" / name; }
fs::path RunLayout::ranks() const { return folder_ / "ranks"; }
fs::path RunLayout::rank(int number) const { return ranks() / std::to_string(number); }
fs::path RunLayout::nodes() const { return folder_ / "nodes"; }
NodeLayout RunLayout::node(std::string_view id) const { return NodeLayout(nodes() / id); }

fs::path NodeLayout::finished() const { return folder_ / kFinished; }
fs::path NodeLayout::reused() const { return folder_ / kReused; }
fs::path NodeLayout::plan() const { return folder_ / "plan.json"; }
fs::path NodeLayout::division() const { return folder_ / "division.gz"; }
fs::path NodeLayout::training_metrics() const { return folder_ / "training_metrics.json"; }
fs::path NodeLayout::checkpoints() const { return folder_ / "checkpoints"; }
fs::path NodeLayout::metrics() const { return folder_ / "metrics.json"; }
fs::path NodeLayout::curves() const { return folder_ / "curves.json"; }
fs::path NodeLayout::episodes() const { return folder_ / "episodes.csv"; }
fs::path NodeLayout::examples() const { return folder_ / "examples"; }
fs::path NodeLayout::similarity() const { return folder_ / "similarity.json"; }
bool NodeLayout::is_account(std::string_view name) { return name == kFinished || name == kReused; }

std::optional<fs::path> run_of(const fs::path& path) {
  std::error_code error;
  for (fs::path folder = fs::absolute(path, error).lexically_normal(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::is_regular_file(RunLayout(folder).mark(), error)) return folder;
  }
  return std::nullopt;
}

std::optional<fs::path> sweep_of(const fs::path& run) {
  std::error_code error;
  fs::path above = fs::absolute(run, error).lexically_normal().parent_path();
  if (!fs::is_regular_file(above / kSweepJournal, error)) return std::nullopt;
  return above;
}

fs::path mlflow_of_sweep(const fs::path& sweep) { return sweep / "mlflow.json"; }

fs::path default_runs_folder(const fs::path& working_folder) { return working_folder / "outputs"; }

}  // namespace runner
