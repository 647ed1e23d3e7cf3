package handlers

// DeskRoutes returns the methods and templates of the desk's routes.
func (s *Server) DeskRoutes() (routes [][2]string) {
	for _, r := range s.desk.routes {
		routes = append(routes, [2]string{r.method, r.template})
	}
	return routes
}

// RefusedQueries returns the queries that the list of events refuses. One names an
// account, which the desk takes.
func RefusedQueries() (queries []string) {
	for _, q := range refusedQueries {
		if q.param != "account" {
			queries = append(queries, q.query)
		}
	}
	return queries
}
