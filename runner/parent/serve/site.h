#pragma once

#include <string>

#include "runner/parent/serve/http_message.h"
#include "runner/parent/serve/run_catalog.h"

namespace runner {

/// The pages of `retort serve`: which request gets which page. Nothing is written, and only what
/// the catalog lists is read.
///
///   /                  the list of runs and sweeps (run_list_document.h); /events follows it
///   /run/ID            the report of a run; /run/ID/events follows it (run_events.h)
///   /sweep/ID          the report of a sweep; /sweep/ID/events follows it (page_events.h)
///   /compare?a=ID&b=ID two runs side by side
///
/// Every request needs the token, either in the query or in the cookie that the first such request
/// sets. The Host header must name this machine, so that no web page can read the site by making
/// its own host name resolve to this machine (DNS rebinding). Methods other than GET and HEAD are
/// rejected.
class Site {
 public:
  /// Borrows `catalog`. `port` is the server's.
  Site(RunCatalog& catalog, std::string token, int port)
      : catalog_(catalog), token_(std::move(token)), port_(port) {}

  /// May be called by several threads at once. Errors become pages.
  PageReply answer(const PageRequest& request) const;
  /// Returns the address to open first.
  std::string address() const;

 private:
  bool is_host_known(const PageRequest& request) const;
  std::string cookie_name() const { return "retort-" + std::to_string(port_); }
  PageReply page_at(const PageRequest& request) const;
  PageReply list_page(const PageRequest& request) const;
  PageReply run_page(const Catalog& catalog, std::size_t place) const;
  PageReply sweep_page(const Catalog& catalog, const CatalogSweep& sweep) const;
  PageReply comparison_page(const Catalog& catalog, const PageRequest& request) const;

  RunCatalog& catalog_;
  const std::string token_;
  const int port_;
};

/// Returns a new token of 128 random bits, in hexadecimal digits.
std::string random_token();

}  // namespace runner
