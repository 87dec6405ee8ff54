#include "stages/worker/requests.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "stages/data/fetch_dataset.h"
#include "stages/adapters/make_cub200.h"
#include "stages/adapters/make_flowers102.h"
#include "stages/retina/make_fundus.h"
#include "stages/data/make_image_folder.h"
#include "stages/few_shot/make_mini_imagenet.h"
#include "stages/contrastive/make_stanford_cars.h"
#include "stages/worker/check_data.h"
#include "stages/worker/export.h"
#include "stages/fetch/hub.h"
#include "stages/worker/predict.h"
#include "stages/worker/memory_checks.h"
#include "stages/machine/versions.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

runner::Result<Json> answer_versions(const Json&, const RequestContext&) { return devices_and_versions(); }

using Make = void (*)(const std::filesystem::path& folder, const MadeImages&, const MakeCallbacks&);

constexpr std::array<std::pair<std::string_view, Make>, 8> kMakers = {{{"aptos_2019", make_aptos_2019},
                                                                       {"cub200", make_cub200},
                                                                       {"eyepacs_2015", make_eyepacs_2015},
                                                                       {"flowers102", make_flowers102},
                                                                       {"fundus_folders", make_fundus_folders},
                                                                       {"image_folder", make_image_folder},
                                                                       {"mini_imagenet", make_mini_imagenet},
                                                                       {"stanford_cars", make_stanford_cars}}};

/// {"what", "out", "classes", "per_class", "size", "seed"} → {"folder", "images"}.
runner::Result<Json> answer_make_data(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(request, {"what", "out", "classes", "per_class", "size", "seed"});
  const MadeImages images{.classes = fields.integer("classes"),
                          .per_class = fields.integer("per_class"),
                          .size = fields.integer("size"),
                          .seed = fields.integer("seed")};
  MakeCallbacks callbacks;
  callbacks.cancelled = context.cancelled;
  callbacks.progress = [&](std::int64_t done, std::int64_t all) {
    runner::Progress progress;
    progress.phase = "make";
    progress.step = done;
    progress.steps = all;
    context.progress(progress);
  };
  const std::string folder = fields.text("out");
  const auto* const maker = std::ranges::find(kMakers, fields.text("what"), &decltype(kMakers)::value_type::first);
  if (maker == kMakers.end()) throw std::invalid_argument("a data set that nobody can make");
  maker->second(folder, images, callbacks);
  return Json{{"folder", folder}, {"images", images.count()}};
}

FetchCallbacks callbacks_of(const RequestContext& context) {
  return {.progress = context.progress, .say = context.say, .cancelled = context.cancelled};
}

/// {"what", "root", "files", "url"} → {"folder", "was_there", "received_bytes", "files"}.
runner::Result<Json> answer_fetch_data(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(request, {"what", "root", "files", "url"});
  const std::string what = fields.text("what");
  const PublishedDataset* dataset = find_published(what);
  if (!dataset) return runner::Diagnostic{runner::ErrorCode::kUsage, {}, "", "cannot fetch '" + what + "'", ""};
  DatasetWish wish{.root = fields.text("root"), .url = fields.text("url")};
  for (const std::string& file : fields.texts("files")) wish.files.emplace_back(file);
  const FetchedDataset fetched = fetch_published(*dataset, wish, callbacks_of(context));
  return Json{{"folder", fetched.folder.string()},
              {"was_there", fetched.was_there},
              {"received_bytes", fetched.received},
              {"files", fetched.files}};
}

/// {"repository", "revision", "files", "cache", "endpoint"} → {"folder", "commit", "received_bytes", "files": [{"name",
/// "bytes", "was_there"}]}.
runner::Result<Json> answer_fetch_model(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(request, {"repository", "revision", "files", "cache", "endpoint"});
  const HubWish wish{.repository = fields.text("repository"),
                     .revision = fields.text("revision"),
                     .files = fields.texts("files"),
                     .cache = fields.text("cache"),
                     .endpoint = fields.text("endpoint")};
  const HubSnapshot snapshot = fetch_hub(wish, callbacks_of(context));
  Json files = Json::array();
  for (const HubFile& file : snapshot.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"was_there", file.was_there}});
  return Json{{"folder", snapshot.folder.string()},
              {"commit", snapshot.commit},
              {"received_bytes", snapshot.received},
              {"files", std::move(files)}};
}

}  // namespace

runner::JsonFields<Json> request_fields(const Json& request, std::initializer_list<std::string_view> keys) {
  const runner::JsonFields fields(request, "the request");
  std::vector<std::string_view> known = {"protocol", "request", "log"};
  known.insert(known.end(), keys);
  fields.only(known);
  return fields;
}

std::span<const RequestKind> all_requests() {
  static constexpr std::array kRequests = {
      RequestKind{"check_data", answer_check_data},   RequestKind{"check_memory", answer_check_memory},
      RequestKind{"export", answer_export},           RequestKind{"fetch_data", answer_fetch_data},
      RequestKind{"fetch_model", answer_fetch_model}, RequestKind{"make_data", answer_make_data},
      RequestKind{"predict", answer_predict},         RequestKind{"versions", answer_versions},
  };
  return kRequests;
}

}  // namespace stages
