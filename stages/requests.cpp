#include "stages/requests.h"

#include <array>

#include <nlohmann/json.hpp>

#include "stages/versions.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

runner::Result<Json> answer_versions(const Json&, const RequestContext&) { return devices_and_versions(); }

}  // namespace

std::span<const RequestKind> all_requests() {
  static constexpr std::array kRequests = {
      RequestKind{"versions", answer_versions},
  };
  return kRequests;
}

}  // namespace stages
