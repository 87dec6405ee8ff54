#include "runner/parent/run/run_request.h"

#include "runner/shared/protocol/event.h"

namespace runner {

using Json = nlohmann::ordered_json;

Json run_request(const RunRequest& request) {
  Json json = {{"protocol", kProtocolVersion},
               {"request", "run"},
               {"graph", to_json(request.graph)},
               {"smoke", request.smoke},
               {"strict", request.strict},
               {"resume", !request.resume.empty()},
               {"checkpoints", to_json(request.trained)},
               {"reuse", name(request.reuse)}};
  const auto absolute = [](const std::filesystem::path& path) {
    return std::filesystem::absolute(path).string();
  };
  if (!request.resume.empty()) json["folder"] = absolute(request.resume);
  if (!request.plans.empty()) json["plans"] = absolute(request.plans);
  if (!request.divisions.empty()) json["divisions"] = absolute(request.divisions);
  if (request.accepts_changes) json["accepts_changes"] = true;
  return json;
}

}  // namespace runner
