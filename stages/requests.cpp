#include "stages/requests.h"

#include <array>

#include <nlohmann/json.hpp>

#include "stages/data/make_image_folder.h"
#include "stages/predict.h"
#include "stages/versions.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

runner::Result<Json> answer_versions(const Json&, const RequestContext&) { return devices_and_versions(); }

/// {"out", "classes", "per_class", "size", "seed"} → {"folder", "images"}.
runner::Result<Json> answer_make_data(const Json& request, const RequestContext& context) {
  const MadeImages images{.classes = request.at("classes"),
                          .per_class = request.at("per_class"),
                          .size = request.at("size"),
                          .seed = request.at("seed")};
  MakeCallbacks callbacks;
  callbacks.cancelled = context.cancelled;
  callbacks.progress = [&](std::int64_t done, std::int64_t all) {
    runner::Progress progress;
    progress.phase = "make";
    progress.step = done;
    progress.steps = all;
    context.progress(progress);
  };
  const std::string folder = request.at("out");
  make_image_folder(folder, images, callbacks);
  return Json{{"folder", folder}, {"images", images.classes * images.per_class}};
}

}  // namespace

std::span<const RequestKind> all_requests() {
  static constexpr std::array kRequests = {
      RequestKind{"make_data", answer_make_data},
      RequestKind{"predict", answer_predict},
      RequestKind{"versions", answer_versions},
  };
  return kRequests;
}

}  // namespace stages
