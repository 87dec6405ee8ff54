#include "stages/ranks/network_address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "runner/shared/disk/descriptor.h"

namespace stages {
namespace {

std::string numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

using FoundAddresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Returns the addresses of a host; null if there are none.
FoundAddresses addresses_of(const std::string& host) {
  addrinfo request{};
  request.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &request, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

}  // namespace

bool is_loopback(const std::string& address) {
  return address.empty() || address.starts_with("127.") || address == "::1";
}

bool is_known_host(const std::string& host) { return addresses_of(host) != nullptr; }

std::string interface_toward(const std::string& host) {
  const FoundAddresses found = addresses_of(host);
  for (const addrinfo* one = found.get(); one; one = one->ai_next) {
    const runner::Descriptor socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (*socket < 0 || ::connect(*socket, one->ai_addr, one->ai_addrlen) != 0 ||
        getsockname(*socket, reinterpret_cast<sockaddr*>(&own), &size) != 0)
      continue;
    return numeric(reinterpret_cast<sockaddr*>(&own), size);
  }
  return {};
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) found = nullptr;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, &freeifaddrs);
  for (const ifaddrs* one = found; one; one = one->ifa_next) {
    if (name == one->ifa_name && one->ifa_addr && one->ifa_addr->sa_family == AF_INET)
      return numeric(one->ifa_addr, sizeof(sockaddr_in));
  }
  return {};
}

}  // namespace stages
