#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/shared/http/http.h"
#include "runner/tracker/end_patience.h"

namespace runner {

/// Thrown if a tracking server does not do what was requested. The message contains no secrets.
struct TrackingError : std::runtime_error {
  TrackingError(const std::string& what, bool is_passing, std::string code = "")
      : std::runtime_error(what), is_passing(is_passing), code(std::move(code)) {}
  bool is_passing;   ///< a retry may succeed
  std::string code;  ///< MLflow's error_code, such as "RESOURCE_DOES_NOT_EXIST"; may be empty
};

/// The address of an MLflow tracking server, and the credentials to use. As in MLflow's own client,
/// a user with a password takes precedence over a token.
struct MlflowAccess {
  std::string address;  ///< http: or https:, without a user
  std::string token = {}, user = {}, password = {};
};

/// Sends requests to the REST API of MLflow, version 2.0
/// (https://mlflow.org/docs/latest/rest-api.html). Both functions throw TrackingError and
/// Canceled.
class MlflowServer {
 public:
  /// `patience` is notified of each request; borrowed, may be null.
  MlflowServer(MlflowAccess access, HttpSettings settings, EndPatience* patience = nullptr);

  /// Calls a method, such as "runs/create", and returns its response, a JSON object.
  nlohmann::json post(std::string_view method, const nlohmann::json& arguments) const;
  nlohmann::json get(std::string_view method, std::string_view argument,
                     std::string_view value) const;
  const std::string& address() const { return access_.address; }

 private:
  nlohmann::json ask(HttpRequest request, std::string_view method) const;
  [[noreturn]] void refuse(const HttpReply& reply, const std::string& body,
                           std::string_view method) const;

  MlflowAccess access_;
  HttpSettings settings_;
  EndPatience* const patience_;
};

}  // namespace runner
