#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// HTTP headers by lower-case name. The values come from the server and must be checked before use.
using HttpHeaders = std::map<std::string, std::string, std::less<>>;

struct HttpRequest {
  std::string url;  ///< http: or https:
  bool wants_body = true;
  std::vector<std::string> headers = {};  ///< "Range: bytes=5-"
  /// Sent as "Authorization: Bearer <token>", only to the host and port of `url`.
  std::string token = {};
  bool leaves_host = true;  ///< whether to follow redirects to another host or port
  /// If there is no token, sent using Basic authentication, only to the host and port of `url`.
  std::string user = {}, password = {};
  /// If set, sent with POST as application/json. Redirects are then returned instead of followed.
  std::optional<std::string> json = {};
};

struct HttpReply {
  int status = 0;
  std::string url;      ///< the URL of the final response
  HttpHeaders headers;  ///< of the final response
  /// The value of each header from the first response in the redirect chain that has it.
  HttpHeaders first_seen;
};

struct HttpSettings {
  long connect_seconds = 30;
  long stall_seconds = 60;  ///< the longest time without receiving a byte
  std::function<bool()> canceled = {};
  std::chrono::milliseconds longest{0};  ///< the longest time for an entire request; 0: no limit
};

/// Thrown if a request does not get a complete response. `is_passing` is true if a retry may
/// succeed.
struct HttpError : std::runtime_error {
  HttpError(const std::string& what, bool is_passing)
      : std::runtime_error(what), is_passing(is_passing) {}
  bool is_passing;
};

/// Sends a request and follows redirects, at most ten and never from https: to http:. Passes the
/// body of the final response to `on_body` in chunks; an exception from `on_body` aborts the
/// transfer and is rethrown. Respects http_proxy, https_proxy, all_proxy and no_proxy, and uses the
/// certificates in CURL_CA_BUNDLE or SSL_CERT_FILE. Throws HttpError and Canceled.
HttpReply send(const HttpRequest& request, const HttpSettings& settings,
               const std::function<void(const HttpReply& reply, std::string_view bytes)>& on_body);

/// Returns the origin to which a token may be sent, such as "https://host:443"; empty if `url` is
/// neither http: nor https:.
std::string origin_of(const std::string& url);

/// True if a redirect from one URL to another may be followed: only to http: and https:, and never
/// from https: to http:.
bool is_followed(const std::string& from, const std::string& to);

/// Returns `url` for messages, without user, password, query and fragment, which may contain
/// secrets.
std::string shown_url(const std::string& url);

}  // namespace runner
