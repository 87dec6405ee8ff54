#include "stages/worker/requests.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "stages/data/fetch_dataset.h"
#include "stages/data/shapes.h"
#include "stages/fetch/hub.h"
#include "stages/machine/device.h"
#include "stages/python/python_host.h"
#include "stages/stages.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

FetchCallbacks callbacks_of(const RequestContext& context) {
  return {.progress = context.progress, .say = context.say, .canceled = context.canceled};
}

}  // namespace

runner::JsonFields<Json> request_fields(const Json& request,
                                        std::initializer_list<std::string_view> keys) {
  const runner::JsonFields fields(request, "the request");
  std::vector<std::string_view> known = {"protocol", "request", "log"};
  known.insert(known.end(), keys);
  fields.only(known);
  return fields;
}

runner::Diagnostic misunderstood(const std::string& what) {
  return {runner::ErrorCode::kProtocol,
          {},
          "",
          "retort's request cannot be understood: " + what,
          "this is a bug in Retort"};
}

Json all_versions() {
  Json all = versions();
  if (!has_python()) return all;
  try {
    all["python"] = call_python({{"do", "packages"}});
  } catch (const runner::StageError&) {  // in this case, the record lacks the packages
  }
  return all;
}

runner::Result<Json> answer_versions(const Json&, const RequestContext&) {
  return devices_and_versions();
}

runner::Result<Json> answer_make_data(const Json& request, const RequestContext& context) {
  const auto fields =
      request_fields(request, {"what", "out", "classes", "per_class", "size", "seed"});
  const MadeImages images{.classes = fields.integer("classes"),
                          .per_class = fields.integer("per_class"),
                          .size = fields.integer("size"),
                          .seed = fields.integer("seed")};
  MakeCallbacks callbacks;
  callbacks.canceled = context.canceled;
  callbacks.progress = [&](std::int64_t done, std::int64_t all) {
    runner::Progress progress;
    progress.phase = "make";
    progress.step = done;
    progress.steps = all;
    context.progress(progress);
  };
  const std::string folder = fields.text("out");
  const auto made = std::ranges::find(all_made_datasets(), fields.text("what"), &MadeDataset::name);
  if (made == all_made_datasets().end()) throw std::invalid_argument("the dataset is unknown");
  made->make(folder, images, callbacks);
  return Json{{"folder", folder}, {"images", images.count()}};
}

runner::Result<Json> answer_fetch_data(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(request, {"what", "root", "files", "url"});
  const std::string what = fields.text("what");
  const PublishedDataset* dataset = find_published(what);
  if (!dataset)
    return runner::Diagnostic{runner::ErrorCode::kUsage, {}, "", "cannot fetch '" + what + "'", ""};
  DatasetRequest wanted{.root = fields.text("root"), .url = fields.text("url")};
  for (const std::string& file : fields.texts("files")) wanted.files.emplace_back(file);
  const FetchedDataset fetched = fetch_published(*dataset, wanted, callbacks_of(context));
  return Json{{"folder", fetched.folder.string()},
              {"was_there", fetched.was_there},
              {"received_bytes", fetched.received},
              {"files", fetched.files}};
}

runner::Result<Json> answer_fetch_model(const Json& request, const RequestContext& context) {
  const auto fields =
      request_fields(request, {"repository", "revision", "files", "cache", "endpoint"});
  const HubRequest wanted{.repository = fields.text("repository"),
                          .revision = fields.text("revision"),
                          .files = fields.texts("files"),
                          .cache = fields.text("cache"),
                          .endpoint = fields.text("endpoint")};
  const HubSnapshot snapshot = fetch_hub(wanted, callbacks_of(context));
  Json files = Json::array();
  for (const HubFile& file : snapshot.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"was_there", file.was_there}});
  return Json{{"folder", snapshot.folder.string()},
              {"commit", snapshot.commit},
              {"received_bytes", snapshot.received},
              {"files", std::move(files)}};
}

}  // namespace stages
