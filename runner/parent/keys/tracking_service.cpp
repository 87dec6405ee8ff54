#include "runner/parent/keys/tracking_service.h"

#include <algorithm>
#include <array>

namespace runner {
namespace {

struct ServiceKey {
  std::string_view key, instead;
};

constexpr std::string_view kWandb =
    "write run.tensorboard=true; `wandb sync RUN/tensorboard` then uploads the run";
constexpr std::string_view kTrackio =
    "write run.tensorboard=true; trackio.import_tf_events(\"RUN/tensorboard\", project=...) then "
    "imports the run";
constexpr std::string_view kMlflow =
    "write run.mlflow=true, and set MLFLOW_TRACKING_URI to the server's address";
constexpr std::string_view kTensorBoard = "write run.tensorboard=true";
constexpr std::string_view kAnyService =
    "write run.tensorboard=true and import its files with `wandb sync` or Trackio, or write "
    "run.mlflow=true";

constexpr std::array kServiceKeys = {
    ServiceKey{"wandb", kWandb},
    ServiceKey{"use_wandb", kWandb},
    ServiceKey{"wandb_project", kWandb},
    ServiceKey{"log_wandb", kWandb},
    ServiceKey{"trackio", kTrackio},
    ServiceKey{"use_trackio", kTrackio},
    ServiceKey{"mlflow", kMlflow},
    ServiceKey{"use_mlflow", kMlflow},
    ServiceKey{"tensorboard", kTensorBoard},
    ServiceKey{"use_tensorboard", kTensorBoard},
    ServiceKey{"report_to", kAnyService},
};

}  // namespace

std::string instead_of_tracking_service(std::string_view key) {
  const auto found = std::ranges::find(kServiceKeys, key, &ServiceKey::key);
  return found == kServiceKeys.end() ? "" : std::string(found->instead);
}

}  // namespace runner
