package handlers

// DeskRoutes returns the methods and templates of the desk's routes.
func (s *Server) DeskRoutes() (routes [][2]string) {
	for _, r := range s.desk.routes {
		routes = append(routes, [2]string{r.method, r.template})
	}
	return routes
}
