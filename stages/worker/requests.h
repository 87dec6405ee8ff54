#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/value/json_fields.h"

namespace stages {

/// Callbacks for code that answers a request.
struct RequestContext {
  std::function<void(const runner::Progress&)> progress;
  std::function<void(std::string_view line)> say;
  std::function<bool()> canceled;  ///< true if the code must stop by throwing runner::Canceled
  std::function<void(const nlohmann::ordered_json&)> item =
      {};  ///< emits one of many results as soon as it is available
};

/// A kind of request that a worker answers, other than running a graph: {"protocol": 1, "request":
/// <name>, …}. `answer` receives the whole request, validates what it reads, and throws
/// runner::StageError like a stage.
struct RequestKind {
  std::string_view name;
  runner::Result<nlohmann::ordered_json> (*answer)(const nlohmann::ordered_json& request,
                                                   const RequestContext& context);
};

/// Reads the members of a request. `keys` are the allowed members other than "protocol", "request"
/// and "log". Throws std::runtime_error for unknown members and, like JsonFields, for missing ones:
/// "the request has no 'out'".
runner::JsonFields<nlohmann::ordered_json> request_fields(
    const nlohmann::ordered_json& request, std::initializer_list<std::string_view> keys);

/// Returns the error for a request that a worker cannot understand. `what` names the part at fault.
runner::Diagnostic misunderstood(const std::string& what);

/// Returns the versions of this worker's libraries and, if Python hosts it, of Python and its
/// packages.
nlohmann::ordered_json all_versions();

/// "versions" → the versions that `retort doctor` shows.
runner::Result<nlohmann::ordered_json> answer_versions(const nlohmann::ordered_json& request,
                                                       const RequestContext& context);
/// "make_data": {"what", "out", "classes", "per_class", "size", "seed"} → {"folder", "images"}.
runner::Result<nlohmann::ordered_json> answer_make_data(const nlohmann::ordered_json& request,
                                                        const RequestContext& context);
/// "fetch_data": {"what", "root", "files", "url"} → {"folder", "was_there", "received_bytes",
/// "files"}.
runner::Result<nlohmann::ordered_json> answer_fetch_data(const nlohmann::ordered_json& request,
                                                         const RequestContext& context);
/// "fetch_model": {"repository", "revision", "files", "cache", "endpoint"} → {"folder", "commit",
/// "received_bytes", "files": [{"name", "bytes", "was_there"}]}.
runner::Result<nlohmann::ordered_json> answer_fetch_model(const nlohmann::ordered_json& request,
                                                          const RequestContext& context);

}  // namespace stages
