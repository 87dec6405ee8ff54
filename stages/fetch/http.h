#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// By lower-case name. The text is the server's: to be checked before it is used.
using HttpHeaders = std::map<std::string, std::string, std::less<>>;

struct HttpRequest {
  std::string url;  ///< http: or https:
  bool wants_body = true;
  std::vector<std::string> headers = {};  ///< "Range: bytes=5-"
  std::string token =
      {};  ///< "Authorization: Bearer <token>", sent to the url's own host and port alone
  bool leaves_host = true;  ///< follow a redirect to another host or port
};

struct HttpReply {
  int status = 0;
  std::string url;         ///< that answered in the end
  HttpHeaders headers;     ///< of that answer
  HttpHeaders first_seen;  ///< each header as the first answer on the way has it that has it at all
};

struct HttpSettings {
  long connect_seconds = 30;
  long stall_seconds = 60;  ///< without a byte
  std::function<bool()> cancelled = {};
};

/// A request that got no whole answer. `is_passing`: it may do the next time.
struct HttpError : std::runtime_error {
  HttpError(const std::string& what, bool is_passing)
      : std::runtime_error(what), is_passing(is_passing) {}
  bool is_passing;
};

/// Sends a request and follows redirects, at most ten and never from https: to http:. The body of
/// the last answer goes to `on_body` piece by piece; an exception from it ends the transfer and
/// comes through. Obeys http_proxy, https_proxy, all_proxy and no_proxy, and the certificates of
/// SSL_CERT_FILE. Throws HttpError and runner::Cancelled.
HttpReply send(const HttpRequest& request, const HttpSettings& settings,
               const std::function<void(const HttpReply& reply, std::string_view bytes)>& on_body);

/// "https://host:443": what a token may be sent to. Empty where `url` is none of http: or https:.
std::string origin_of(const std::string& url);

/// May a redirect lead from one address to the other? To http: and https:, and never from https: to
/// http:.
bool is_followed(const std::string& from, const std::string& to);

/// `url` for a message: without user, password, query and fragment, which may hold secrets.
std::string shown_url(const std::string& url);

}  // namespace stages
