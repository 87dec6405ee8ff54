#include "runner/parent/run/mlflow_target.h"

#include <algorithm>

#include "runner/parent/run/worker_process.h"
#include "runner/shared/text/secret_name.h"

namespace runner {
namespace {

constexpr const char* kAddressVariable = "MLFLOW_TRACKING_URI";

Diagnostic no_tracker(std::string message, std::string help) {
  return {ErrorCode::kNoTracker, {}, "/run/mlflow", std::move(message), std::move(help)};
}

}  // namespace

Diagnostics refused_mlflow_address(const std::string& address, const std::string& what) {
  const std::string is = what + " is '" + without_url_secrets(address) + "': ";
  if (address.starts_with("databricks"))
    return {no_tracker(is + "Retort does not sign in to Databricks",
                       "use the address of an MLflow server, such as http://127.0.0.1:5000; "
                       "MLflow's own export tools copy runs from there to Databricks")};
  const std::size_t scheme = address.starts_with("http://")    ? 7
                             : address.starts_with("https://") ? 8
                                                               : 0;
  if (scheme == 0)
    return {no_tracker(is + "Retort sends runs to a server and does not write MLflow's folders and "
                            "databases itself",
                       "start a server for it, for example with `mlflow server --backend-store-uri "
                       "sqlite:///mlflow.db`, and use its address, such as http://127.0.0.1:5000")};
  const std::string host = address.substr(scheme, address.find_first_of("/?#", scheme) - scheme);
  if (host.find('@') != host.npos)
    return {no_tracker(is + "it contains a user name, which would be recorded",
                       "leave it out, and set MLFLOW_TRACKING_USERNAME and "
                       "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN")};
  const bool is_plain = std::ranges::none_of(address, [](const char c) {
    return c == '?' || c == '#' || static_cast<unsigned char>(c) <= ' ';
  });
  if (host.empty() || !is_plain)
    return {no_tracker(is + "that is not the address of a server",
                       "use an address such as http://127.0.0.1:5000")};
  return {};
}

Result<MlflowTarget> mlflow_target(const Environment& environment,
                                   const std::filesystem::path& own_executable) {
  MlflowTarget target{.server = environment(kAddressVariable).value_or("")};
  if (target.server.empty())
    return no_tracker("run.mlflow is true, but MLFLOW_TRACKING_URI is not set",
                      "set it to the address of an MLflow server, such as "
                      "MLFLOW_TRACKING_URI=http://127.0.0.1:5000, or write run.mlflow=false");
  if (auto errors = refused_mlflow_address(target.server, kAddressVariable); !errors.empty())
    return errors;
  while (target.server.ends_with('/')) target.server.pop_back();
  target.experiment_name = environment("MLFLOW_EXPERIMENT_NAME").value_or("");
  if (target.experiment_name.empty())
    target.experiment_id = environment("MLFLOW_EXPERIMENT_ID").value_or("");
  auto tracker = find_tracker(own_executable);
  if (!tracker) return tracker.errors();
  target.tracker = *std::move(tracker);
  return target;
}

}  // namespace runner
