#include "runner/parent/serve/run_events.h"

#include <memory>

#include "runner/parent/report/run_progress.h"
#include "runner/parent/sweep/trial_table.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

constexpr int kCallsBetweenReports = 5;  // a report takes longer to generate than a line

std::string event(const std::string& name, const std::string& data) {
  return "event: " + name + "\ndata: " + printable(data) + "\n\n";
}

/// What has been reported about a run so far.
class FollowedRun {
 public:
  explicit FollowedRun(std::filesystem::path folder)
      : folder_(std::move(folder)), measured_(measured()) {}

  std::optional<std::string> next() {
    if (is_over_) return std::nullopt;
    const RunProgress progress = run_progress(folder_);
    std::string text;
    if (std::string line = run_line(progress); line != line_) {
      line_ = std::move(line);
      text += event("progress", line_);
    }
    is_over_ = !progress.status.empty() && progress.status != "running";
    if (is_over_) return text + event("end", progress.status);
    if (++calls_ < kCallsBetweenReports) return text;
    if (const std::uintmax_t now = measured(); now != measured_) {
      measured_ = now;
      calls_ = 0;
      text += event("report", "changed");
    }
    return text;
  }

 private:
  /// Returns the size of the run's metrics, which grows until the run is resumed from an earlier
  /// step.
  std::uintmax_t measured() const {
    std::error_code none;
    const std::uintmax_t size = std::filesystem::file_size(RunLayout(folder_).metrics(), none);
    return none ? 0 : size;
  }

  const std::filesystem::path folder_;
  std::string line_;
  std::uintmax_t measured_;
  int calls_ = 0;
  bool is_over_ = false;
};

}  // namespace

std::function<std::optional<std::string>()> run_events(std::filesystem::path folder) {
  return [followed = std::make_shared<FollowedRun>(std::move(folder))] { return followed->next(); };
}

}  // namespace runner
