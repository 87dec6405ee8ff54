#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace runner {

/// A request as a browser sends it, without a body.
struct PageRequest {
  std::string method;                          ///< "GET"
  std::string path;                            ///< as sent, without the query: "/run/0a1b"
  std::map<std::string, std::string> query;    ///< decoded; if a name is repeated, its first value
  std::map<std::string, std::string> headers;  ///< keyed by lower-case name

  /// Returns the value of a query field; empty if there is none.
  std::string field(const std::string& name) const;
  /// Returns the value of a header; empty if there is none.
  std::string header(const std::string& name) const;
  /// Returns the value of a cookie; empty if there is none.
  std::string cookie(std::string_view name) const;
};

/// A server's response. With `events`, the body is a stream of server-sent events instead: the
/// server calls `events` about once a second and sends what it returns, until it returns nullopt.
struct PageReply {
  int status = 200;
  std::string body = {};
  std::string type = "text/html; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::function<std::optional<std::string>()> events = {};
};

/// Parses the head of a request, up to and including its empty line (RFC 9112). If the request is
/// not valid, returns the status to reject it with: 400, or 505 for another HTTP version. Accepts
/// only paths on this server, and no folded or repeated headers except Cookie.
std::variant<PageRequest, int> parse_request(std::string_view head);

/// Returns the head of a reply. The connection is closed after the body.
std::string reply_head(const PageReply& reply);

}  // namespace runner
