#pragma once

#include <string>

namespace stages {

inline constexpr const char* kLoopback = "127.0.0.1";

/// True for an address that only this machine reaches, and for an empty one.
bool is_loopback(const std::string& address);

/// True if the host name resolves to an address, or is itself an address.
bool is_known_host(const std::string& host);

/// Returns the address of the interface through which this machine reaches `host`, which need not
/// respond; empty if there is none.
std::string interface_toward(const std::string& host);

/// Returns the IPv4 address of a network interface of this machine; empty if there is none.
std::string address_of_interface(const std::string& name);

}  // namespace stages
