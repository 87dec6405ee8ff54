#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// Headers by lower-case name. The values come from the server: check them before use.
using HttpHeaders = std::map<std::string, std::string, std::less<>>;

struct HttpRequest {
  std::string url;  ///< http: or https:
  bool wants_body = true;
  std::vector<std::string> headers = {};  ///< "Range: bytes=5-"
  std::string token =
      {};  ///< "Authorization: Bearer <token>", sent to the url's own host and port only
  bool leaves_host = true;  ///< follow redirects to another host or port
};

struct HttpReply {
  int status = 0;
  std::string url;         ///< the url that gave the final response
  HttpHeaders headers;     ///< of the final response
  HttpHeaders first_seen;  ///< each header, from the first response in the redirect chain that has
                           ///< it
};

struct HttpSettings {
  long connect_seconds = 30;
  long stall_seconds = 60;  ///< without a byte
  std::function<bool()> cancelled = {};
};

/// A request without a complete response. `is_passing`: a retry may succeed.
struct HttpError : std::runtime_error {
  HttpError(const std::string& what, bool is_passing)
      : std::runtime_error(what), is_passing(is_passing) {}
  bool is_passing;
};

/// Sends a request and follows redirects, at most ten and never from https: to http:. The body of
/// the final response goes to `on_body` in pieces; an exception from it aborts the transfer and is
/// rethrown. Uses http_proxy, https_proxy, all_proxy and no_proxy, and the certificates of
/// SSL_CERT_FILE. Throws HttpError and runner::Cancelled.
HttpReply send(const HttpRequest& request, const HttpSettings& settings,
               const std::function<void(const HttpReply& reply, std::string_view bytes)>& on_body);

/// "https://host:443": where a token may be sent. Empty if `url` is neither http: nor https:.
std::string origin_of(const std::string& url);

/// May a redirect lead from one address to the other? Only to http: and https:, and never from
/// https: to http:.
bool is_followed(const std::string& from, const std::string& to);

/// `url` for a message: without user, password, query and fragment, which may hold secrets.
std::string shown_url(const std::string& url);

}  // namespace stages
