// A study, not a part of Retort: measures claims about running out of GPU memory.
//
//   oom_claims               measures all claims and prints text
//   oom_claims 4 19          measures some of them
//   oom_claims --markdown    prints the table of README.md, or the lines of the given rows
//   oom_claims --list        prints the row numbers

#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <torch/types.h>

#include "experiments/oom_claims/table.h"
#include "stages/plan/meta_kernels.h"

namespace {

using oom_claims::Claim;

int usage() {
  std::fputs("usage: oom_claims [--markdown | --list] [ROW...]\n", stderr);
  return 64;
}

/// Returns the claims of some rows, or all claims; none if a row is unknown.
std::vector<Claim> chosen(const std::vector<std::string>& rows) {
  std::vector<Claim> all = oom_claims::claims();
  if (rows.empty()) return all;
  std::vector<Claim> some;
  for (const std::string& row : rows) {
    int number = 0;
    const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), number);
    const auto found = std::ranges::find(all, number, &Claim::row);
    if (error != std::errc() || end != row.data() + row.size() || found == all.end()) return {};
    some.push_back(*found);
  }
  return some;
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> rows(arguments + 1, arguments + count);
  const auto flag = [&](const char* name) { return std::erase(rows, name) > 0; };
  const bool is_list = flag("--list"), is_markdown = flag("--markdown");
  const std::vector<Claim> claims = chosen(rows);
  if (claims.empty() || (is_list && (is_markdown || !rows.empty()))) return usage();
  at::set_num_threads(1);  // makes sums the same on every machine
  stages::register_meta_kernels();
  try {
    if (is_markdown && rows.empty()) std::fputs(oom_claims::table_heading().c_str(), stdout);
    for (const Claim& claim : claims) {
      const std::string text = is_list       ? std::to_string(claim.row) + "\n"
                               : is_markdown ? oom_claims::table_line(claim)
                                             : oom_claims::paragraph(claim);
      std::fputs(text.c_str(), stdout);
      std::fflush(stdout);
    }
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "oom_claims: %s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oom_claims: %s\n", error.what());
    return 1;
  }
  return 0;
}
