#include "runner/tracker/mlflow_server.h"

#include <chrono>
#include <utility>

#include "runner/shared/text/percent_encoding.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestMlflowAnswer = 16 << 20;  // bytes
constexpr std::size_t kQuotedColumns = 200;             // columns of the server's message

/// True for the statuses after which MLflow's own client also retries.
bool is_passing_answer(int status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

std::string text_member(const json& answer, const char* key) {
  const auto found = answer.is_object() ? answer.find(key) : answer.end();
  return answer.is_object() && found != answer.end() && found->is_string()
             ? found->get<std::string>()
             : "";
}

}  // namespace

MlflowServer::MlflowServer(MlflowAccess access, HttpSettings settings, EndPatience* patience)
    : access_(std::move(access)), settings_(std::move(settings)), patience_(patience) {
  while (access_.address.ends_with('/')) access_.address.pop_back();
  if (!access_.user.empty() && !access_.password.empty()) access_.token.clear();
}

json MlflowServer::post(std::string_view method, const json& arguments) const {
  HttpRequest request;
  request.json = arguments.dump(-1, ' ', false, json::error_handler_t::replace);
  return ask(std::move(request), method);
}

json MlflowServer::get(std::string_view method, std::string_view argument,
                       std::string_view value) const {
  HttpRequest request{.leaves_host = false};
  request.url = "?" + std::string(argument) + "=" + percent_encoded(value);
  return ask(std::move(request), method);
}

json MlflowServer::ask(HttpRequest request, std::string_view method) const {
  request.url = access_.address + "/api/2.0/mlflow/" + std::string(method) + request.url;
  request.token = access_.token;
  request.user = access_.user;
  request.password = access_.password;
  std::string body;
  HttpReply reply;
  if (patience_) patience_->ask(std::chrono::steady_clock::now());
  try {
    reply = send(request, settings_, [&](const HttpReply&, std::string_view bytes) {
      if (body.size() + bytes.size() > kLongestMlflowAnswer)
        throw TrackingError(access_.address + " sent a response that is too long", false);
      body += bytes;
    });
    if (patience_) patience_->answered(true);
  } catch (const HttpError& error) {
    if (patience_) patience_->answered(false);
    throw TrackingError(error.what(), error.is_passing);
  }
  if (reply.status != 200) refuse(reply, body, method);
  json answer = parse_json<json>(body);
  if (!answer.is_object())
    throw TrackingError(access_.address + " does not respond like an MLflow server", false);
  return answer;
}

void MlflowServer::refuse(const HttpReply& reply, const std::string& body,
                          std::string_view method) const {
  const json answer = parse_json<json>(body);
  std::string text = access_.address + " answers " + std::to_string(reply.status) + " to '" +
                     std::string(method) + "'";
  if (const auto next = reply.headers.find("location"); next != reply.headers.end())
    text += ", a redirect to " + shown_url(next->second);
  const std::string said = printable(text_member(answer, "message"));
  if (!said.empty()) text += ": " + cut_to_width(said, kQuotedColumns);
  for (const std::string& secret : {access_.token, access_.password}) {
    for (std::size_t at; !secret.empty() && (at = text.find(secret)) != text.npos;)
      text.replace(at, secret.size(), "***");
  }
  throw TrackingError(text, is_passing_answer(reply.status), text_member(answer, "error_code"));
}

}  // namespace runner
